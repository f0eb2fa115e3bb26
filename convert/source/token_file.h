/*
 * token_file — the header of a token file (.bin) of llm.c.
 *
 *     offset   bytes
 *     0        4       magic: 20240520 (GPT-2) or 20240801 (Llama 3)
 *     4        4       version: 1 (GPT-2, u16 tokens) or 7 (Llama 3, u32 tokens)
 *     8        4       number of tokens
 *     12       1012    zeros
 *     1024     ...     tokens
 *
 * Integers are little-endian (llm.c's dev/data/data_common.py). The file says which tokenizer made
 * its tokens. llm.c puts the document-end token before each document.
 */
#ifndef MILLRACE_CONVERT_SOURCE_TOKEN_FILE_H
#define MILLRACE_CONVERT_SOURCE_TOKEN_FILE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TOKEN_FILE_HEADER_BYTES = 1024 };

/* What a file's tokens are. */
struct token_kind {
    const char *tokenizer; /* its name in dataset.json */
    uint32_t vocabulary, document_end;
    size_t token_bytes;
};

/* Whether a file's first bytes are those of llm.c, also of its files for evaluation. */
bool token_file_detect(const void *head, size_t bytes);
/* Checks the header. *ret_kind: one of two constants. -EBADMSG, -ENOTSUP. */
int token_file_parse(const void *head, size_t bytes, uint64_t file_bytes, const char *path,
                     const struct token_kind **ret_kind, struct err *err);

#endif
