/*
 * bpe — GPT-2's tokenizer: byte-pair encoding with a given vocabulary.
 *
 * GPT-2's pattern splits text into words:
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * Within a word, the pair of lowest rank is merged, leftmost first, until no pair has a rank
 * (Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", ACL 2016;
 * Radford et al., GPT-2, 2019, section 2.2). Any bytes are valid text, and decoding restores them,
 * even malformed UTF-8. Names of special tokens are plain text.
 *
 *     bpe_open(io, "gpt2", &bpe, err);
 *     bpe_encoder_open(bpe, &encoder, err);               // one per thread
 *     bpe_encode(encoder, text, bytes, &tokens, err);     // uint16, little-endian, appended
 *
 * Encoding allocates no memory per word; memory grows only with the longest word.
 */
#ifndef MILLRACE_CONVERT_BPE_BPE_H
#define MILLRACE_CONVERT_BPE_BPE_H

#include "base/str.h"
#include "io/io.h"

#include <stddef.h>
#include <stdint.h>

enum {
    BPE_TOKEN_BYTES = 2,
    BPE_VOCABULARY_MAX = 65535, /* token ids are uint16; 0xffff means "none" */
    BPE_TEXT_BYTES_MAX = 1 << 24,
    BPE_FILE_BYTES_MAX = 1 << 26, /* per file */
};

/* Immutable; usable from any thread. */
struct bpe;

/* -EBADMSG with file and offset: encoder.json or vocab.bpe is invalid. */
int bpe_open(struct io *io, const char *folder, struct bpe **ret_bpe, struct err *err);
void bpe_close(struct bpe *bpe); /* NULL is fine */

uint32_t bpe_vocabulary_size(const struct bpe *bpe);    /* exclusive upper bound of token ids */
uint32_t bpe_document_end_token(const struct bpe *bpe); /* id of "<|endoftext|>" */
uint64_t bpe_identity(const struct bpe *bpe);           /* hash of both files */

/* Use from one thread only. Borrows bpe. */
struct bpe_encoder;
int bpe_encoder_open(const struct bpe *bpe, struct bpe_encoder **ret_encoder, struct err *err);
void bpe_encoder_close(struct bpe_encoder *encoder); /* NULL is fine */

/* Appends the tokens of up to BPE_TEXT_BYTES_MAX bytes. -ENOMEM. */
int bpe_encode(struct bpe_encoder *encoder, const void *text, size_t bytes, struct str *tokens,
               struct err *err);

/* Returns the first offset in [min_offset, bytes) where cutting the text changes no tokens: before
 * an ASCII space or line end that follows a character other than white space. Returns `bytes` if
 * there is none. min_offset is at least 3, so that the text includes the preceding character. */
size_t bpe_find_cut(const void *text, size_t bytes, size_t min_offset);

#endif
