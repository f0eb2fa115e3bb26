/*
 * token_index — the index (.idx) of a Megatron-LM dataset; its tokens are in a .bin file.
 *
 *     offset   bytes
 *     0        9        "MMIDIDX\0\0"
 *     9        8        version: 1
 *     17       1        code of the tokens' type
 *     18       8        number of sequences n
 *     26       8        number of document bounds d: one more than documents
 *     34       4 n      tokens of each sequence
 *     ...      8 n      offset of each sequence in the .bin file
 *     ...      8 d      document bounds: each document's first sequence, and n
 *
 * Integers are little-endian (megatron/core/datasets/indexed_dataset.py).
 */
#ifndef MILLRACE_CONVERT_SOURCE_TOKEN_INDEX_H
#define MILLRACE_CONVERT_SOURCE_TOKEN_INDEX_H

#include "io/io.h"

#include <stdbool.h>

#define TOKEN_INDEX_MAGIC "MMIDIDX\0"
enum { TOKEN_INDEX_MAGIC_BYTES = 9 };
/* Limit on sequences and documents. */
#define TOKEN_INDEX_COUNT_MAX (UINT64_C(1) << 34)

/* Immutable once open. */
struct token_index {
    size_t token_bytes; /* 1, 2, 4 or 8 */
    bool is_signed;
    uint64_t tokens;
    uint64_t *ends; /* of the documents that have tokens: the token after them, ascending */
    uint64_t ends_count;
};

/* Memory: 8 bytes per document. -EBADMSG: it is invalid; -ENOTSUP: the tokens are not integers, or
 * have modes (several kinds of data). Blocks. */
int token_index_open(struct io *io, const char *path, struct token_index *ret_index,
                     struct err *err);
void token_index_deinit(struct token_index *index);

#endif
