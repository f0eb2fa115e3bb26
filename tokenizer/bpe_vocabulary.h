/*
 * bpe_vocabulary — lookup tables of a byte-pair vocabulary, and how the readers of tokenizer files
 * (bpe_folder.c, bpe_json.c) fill them.
 *
 * In the files, a character stands for a byte. Printable Latin-1 characters stand for themselves,
 * U+0100 and up for the other bytes in order.
 */
#ifndef MILLRACE_TOKENIZER_BPE_VOCABULARY_H
#define MILLRACE_TOKENIZER_BPE_VOCABULARY_H

#include "tokenizer/bpe.h"
#include "tokenizer/bpe_added.h"
#include "tokenizer/bpe_split.h"

#include <stdbool.h>

/* A slot of the pair table (linear probing). rank, merged_token: BPE_NONE if the slot is empty. */
struct bpe_pair {
    uint32_t left, right;
    uint32_t rank; /* the pair with the lowest rank merges first */
    uint32_t merged_token;
};

/* A slot of the word table (linear probing). bytes: 0 if the slot is empty. */
struct bpe_word {
    uint32_t offset, bytes; /* in word_text */
    uint32_t token;
};

/* Immutable once open. */
struct bpe {
    const char *name;
    enum bpe_pattern pattern;
    bool normalizes; /* to NFC (unicode_nfc.h) */
    uint32_t vocabulary_size, document_end_token;
    uint64_t identity;
    uint32_t bytes[256];    /* the token of each byte */
    struct bpe_pair *pairs; /* [1 << pair_bits], at most half full */
    unsigned pair_bits;
    /* ignore_merges: words that are tokens by themselves, at most half full; NULL: none. */
    struct bpe_word *words; /* [1 << word_bits] */
    unsigned word_bits;
    uint32_t word_bytes_max;
    struct str word_text;
    struct bpe_added added;
    struct bpe_added unmatched; /* special tokens that bpe_find_special finds, but text never has */
};

static inline size_t bpe_width(const struct bpe *bpe)
{
    return bpe->vocabulary_size > BPE_VOCABULARY_U16_MAX ? 4 : 2;
}

static inline size_t bpe_hash_pair(uint32_t left, uint32_t right, unsigned bits)
{
    uint64_t key = (uint64_t)left << 32 | right;
    return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits));
}

/* Returns the pair's slot, or an empty one. */
static inline const struct bpe_pair *bpe_find_pair(const struct bpe *bpe, uint32_t left,
                                                   uint32_t right)
{
    size_t mask = ((size_t)1 << bpe->pair_bits) - 1;
    for (size_t slot = bpe_hash_pair(left, right, bpe->pair_bits);; slot = (slot + 1) & mask) {
        const struct bpe_pair *pair = &bpe->pairs[slot];
        if (pair->merged_token == BPE_NONE || (pair->left == left && pair->right == right))
            return pair;
    }
}

/* Returns the token of a whole word, or BPE_NONE. */
uint32_t bpe_find_word(const struct bpe *bpe, const uint8_t *word, size_t bytes);

/* A bpe under construction. Borrows all but bpe. */
struct bpe_builder {
    struct bpe *bpe;
    const char *path;
    struct json_t *tokens; /* {"token": id} */
    struct err *err;
};

/* -ENOMEM. Afterwards, the caller closes bpe. */
int bpe_builder_init(struct bpe_builder *builder, struct err *err);
/* Sets the detail of an invalid file and returns -EBADMSG. what: what is invalid. */
int bpe_reject(const struct bpe_builder *builder, const char *what, int64_t offset,
               const char *expected, const char *found);
/* Looks a token up by its text in the file. */
int bpe_builder_find(const struct bpe_builder *builder, const char *what, int64_t offset,
                     const char *text, uint32_t *ret_token);
/* Sets bpe->bytes. */
int bpe_builder_set_bytes(const struct bpe_builder *builder, const char *what);
int bpe_builder_reserve_pairs(const struct bpe_builder *builder, size_t count);
/* Adds the pair of two texts, whose merged token is their concatenation. -EBADMSG: a token is
 * missing or the pair exists. */
int bpe_builder_add_pair(const struct bpe_builder *builder, const char *what, int64_t offset,
                         const char *left, const char *right, uint32_t rank);
/* Makes every token a word of ignore_merges, except those that stand for no bytes. */
int bpe_builder_add_words(const struct bpe_builder *builder);

#endif
