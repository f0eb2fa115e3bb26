/*
 * bpe — GPT-2's tokenizer: byte-pair encoding with the vocabulary of a folder that the user names.
 *
 * Text is cut into words by GPT-2's pattern,
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * and the bytes of a word are joined, the pair of the lowest rank first, the leftmost of equals,
 * until no pair has a rank (Sennrich et al., "Neural Machine Translation of Rare Words with Subword
 * Units", ACL 2016; Radford et al., GPT-2, 2019, section 2.2). Any bytes are text: what is no
 * well-formed UTF-8 stands for itself, so decoding gives back every byte. Names of special tokens
 * are plain text.
 *
 *     bpe_open(io, "gpt2", &bpe, err);  // encoder.json and vocab.bpe, as OpenAI published them
 *     bpe_encoder_open(bpe, &encoder, err);               // one a thread
 *     bpe_encode(encoder, text, bytes, &tokens, err);     // uint16, little-endian, appended
 *
 * Nothing is allocated a word: words that came before are found in a cache, other words are joined
 * in memory that grows with the longest one only.
 */
#ifndef MILLRACE_CONVERT_BPE_H
#define MILLRACE_CONVERT_BPE_H

#include "base/str.h"
#include "io/io.h"

#include <stddef.h>
#include <stdint.h>

enum {
    BPE_TOKEN_BYTES = 2,
    BPE_VOCABULARY_MAX = 65535, /* token ids are uint16, and one is kept for "none" */
    BPE_TEXT_BYTES_MAX = 1 << 24,
    BPE_FILE_BYTES_MAX = 1 << 26, /* of encoder.json and of vocab.bpe */
};

/* Immutable; any thread. */
struct bpe;

/* Reads folder/encoder.json and folder/vocab.bpe. -EBADMSG with file and place where they
 * contradict themselves or each other. */
int bpe_open(struct io *io, const char *folder, struct bpe **ret_bpe, struct err *err);
void bpe_close(struct bpe *bpe); /* NULL is fine */

uint32_t bpe_vocabulary(const struct bpe *bpe);   /* token ids are below it */
uint32_t bpe_document_end(const struct bpe *bpe); /* of "<|endoftext|>" */
uint64_t bpe_identity(const struct bpe *bpe); /* of both files: decides the tokens of any text */

/* Owner thread. Borrows the bpe. */
struct bpe_encoder;
int bpe_encoder_open(const struct bpe *bpe, struct bpe_encoder **ret_encoder, struct err *err);
void bpe_encoder_close(struct bpe_encoder *encoder); /* NULL is fine */

/* Appends the tokens of a text of at most BPE_TEXT_BYTES_MAX. -ENOMEM. */
int bpe_encode(struct bpe_encoder *encoder, const void *text, size_t bytes, struct str *tokens,
               struct err *err);

/* The first place in [least, bytes) where text may be cut without changing its tokens: before an
 * ASCII space or line end that follows what is no white space. least is at least 3, so that the
 * character before is seen. bytes where there is none. */
size_t bpe_find_cut(const void *text, size_t bytes, size_t least);

#endif
