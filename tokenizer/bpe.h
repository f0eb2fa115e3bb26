/*
 * bpe — byte-pair encoding with the vocabulary of a published tokenizer.
 *
 * A pattern splits text into words (bpe_split.h). Within a word, the pair of lowest rank is merged,
 * leftmost first, until no pair has a rank (Sennrich et al., "Neural Machine Translation of Rare
 * Words with Subword Units", ACL 2016; Radford et al., GPT-2, 2019, section 2.2). Any bytes are
 * valid text, and decoding restores them, even malformed UTF-8, unless the tokenizer normalizes
 * text. Names of special tokens are plain text.
 *
 *     bpe_open_folder(io, "gpt2", &bpe, err);             // or bpe_open_json
 *     bpe_encoder_open(bpe, &encoder, err);               // one per thread
 *     bpe_encode(encoder, text, bytes, &tokens, err);     // appended, little-endian
 *
 * Encoding allocates no memory per word; memory grows only with the longest word.
 */
#ifndef MILLRACE_TOKENIZER_BPE_H
#define MILLRACE_TOKENIZER_BPE_H

#include "base/str.h"
#include "io/io.h"

#include <stddef.h>
#include <stdint.h>

enum {
    BPE_VOCABULARY_MAX = 1 << 24,
    BPE_VOCABULARY_U16_MAX = 65535, /* larger vocabularies have uint32 tokens */
    BPE_TEXT_BYTES_MAX = 1 << 24,
    BPE_FILE_BYTES_MAX = 1 << 26, /* per file */
};

#define BPE_NONE UINT32_MAX /* no token */

/* Immutable; usable from any thread. */
struct bpe;

/* Opens GPT-2's tokenizer: encoder.json and vocab.bpe in the folder. -EBADMSG with file and offset:
 * a file is invalid. */
int bpe_open_folder(struct io *io, const char *folder, struct bpe **ret_bpe, struct err *err);

/* Opens a tokenizer.json as Hugging Face's tokenizers writes it: byte-level BPE with one of the
 * patterns of bpe_split.h. document_end: the token after each document; NULL: <|endoftext|> or
 * <|end_of_text|>, whichever the file has; "": none (BPE_NONE). -EBADMSG with the path in the file:
 * it is invalid. -ENOTSUP: it would need tokens that this module does not compute. -EINVAL:
 * document_end is not a token, or NULL and the file does not determine it. */
int bpe_open_json(struct io *io, const char *path, const char *document_end, struct bpe **ret_bpe,
                  struct err *err);
void bpe_close(struct bpe *bpe); /* NULL is fine */

const char *bpe_name(const struct bpe *bpe);            /* "gpt2" or "tokenizer.json" */
uint32_t bpe_vocabulary_size(const struct bpe *bpe);    /* exclusive upper bound of token ids */
uint32_t bpe_document_end_token(const struct bpe *bpe); /* its id */
/* Returns the id of an added token, such as "<|endoftext|>"; BPE_NONE: there is none. */
uint32_t bpe_find_special(const struct bpe *bpe, const char *name);
uint64_t bpe_identity(const struct bpe *bpe);  /* hash of the tokenizer's files */
size_t bpe_token_bytes(const struct bpe *bpe); /* 2 or 4 */

/* Use from one thread only. Borrows bpe. */
struct bpe_encoder;
int bpe_encoder_open(const struct bpe *bpe, struct bpe_encoder **ret_encoder, struct err *err);
void bpe_encoder_close(struct bpe_encoder *encoder); /* NULL is fine */

/* Appends the tokens of up to BPE_TEXT_BYTES_MAX bytes. -ENOMEM. */
int bpe_encode(struct bpe_encoder *encoder, const void *text, size_t bytes, struct str *tokens,
               struct err *err);

/* Returns the first offset in [min_offset, bytes) where cutting the text changes no tokens, or
 * `bytes` if it finds none (see bpe_split_find_cut). min_offset is at least 3. */
size_t bpe_find_cut(const struct bpe *bpe, const void *text, size_t bytes, size_t min_offset);

#endif
