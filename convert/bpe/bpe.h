/*
 * bpe — GPT-2's tokenizer: byte-pair encoding with the vocabulary of a given folder.
 *
 * Text is split into words by GPT-2's pattern,
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * and the bytes of a word are merged, the pair of the lowest rank first, the leftmost among equals,
 * until no pair has a rank (Sennrich et al., "Neural Machine Translation of Rare Words with Subword
 * Units", ACL 2016; Radford et al., GPT-2, 2019, section 2.2). Any bytes are valid text: malformed
 * UTF-8 is kept byte for byte, so decoding restores every byte. Names of special tokens are plain
 * text.
 *
 *     bpe_open(io, "gpt2", &bpe, err);  // encoder.json and vocab.bpe, as OpenAI published them
 *     bpe_encoder_open(bpe, &encoder, err);               // one per thread
 *     bpe_encode(encoder, text, bytes, &tokens, err);     // uint16, little-endian, appended
 *
 * No memory is allocated per word: repeated words come from a cache, others are merged in memory
 * that only grows with the longest word.
 */
#ifndef MILLRACE_CONVERT_BPE_BPE_H
#define MILLRACE_CONVERT_BPE_BPE_H

#include "base/str.h"
#include "io/io.h"

#include <stddef.h>
#include <stdint.h>

enum {
    BPE_TOKEN_BYTES = 2,
    BPE_VOCABULARY_MAX = 65535, /* token ids are uint16, and one is reserved for "none" */
    BPE_TEXT_BYTES_MAX = 1 << 24,
    BPE_FILE_BYTES_MAX = 1 << 26, /* limit of encoder.json and of vocab.bpe */
};

/* Immutable; any thread. */
struct bpe;

/* Reads folder/encoder.json and folder/vocab.bpe. -EBADMSG with file and offset if they are
 * inconsistent. */
int bpe_open(struct io *io, const char *folder, struct bpe **ret_bpe, struct err *err);
void bpe_close(struct bpe *bpe); /* NULL is fine */

uint32_t bpe_vocabulary(const struct bpe *bpe);   /* upper bound of token ids, exclusive */
uint32_t bpe_document_end(const struct bpe *bpe); /* the id of "<|endoftext|>" */
uint64_t bpe_identity(const struct bpe *bpe);     /* hash of both files */

/* Owner thread. Borrows the bpe. */
struct bpe_encoder;
int bpe_encoder_open(const struct bpe *bpe, struct bpe_encoder **ret_encoder, struct err *err);
void bpe_encoder_close(struct bpe_encoder *encoder); /* NULL is fine */

/* Appends the tokens of a text of at most BPE_TEXT_BYTES_MAX bytes. -ENOMEM. */
int bpe_encode(struct bpe_encoder *encoder, const void *text, size_t bytes, struct str *tokens,
               struct err *err);

/* The first offset in [least, bytes) where a cut changes no tokens: before an ASCII space or line
 * end that follows a character other than white space. bytes if there is none. least is at least 3,
 * so that the preceding character is visible. */
size_t bpe_find_cut(const void *text, size_t bytes, size_t least);

#endif
