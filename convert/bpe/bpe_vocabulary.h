/*
 * bpe_vocabulary — lookup tables of a byte-pair vocabulary.
 */
#ifndef MILLRACE_CONVERT_BPE_BPE_VOCABULARY_H
#define MILLRACE_CONVERT_BPE_BPE_VOCABULARY_H

#include "convert/bpe/bpe.h"

/* Ranks are below BPE_NONE, so at most half of the slots are used. */
enum { BPE_NONE = 0xffff, BPE_PAIR_TABLE_BITS = 17 };

/* A slot of the pair table (linear probing). merged_token: BPE_NONE if the slot is empty. */
struct bpe_pair {
    uint16_t left, right;
    uint16_t rank; /* the pair with the lowest rank merges first */
    uint16_t merged_token;
};

/* Immutable. */
struct bpe {
    uint32_t vocabulary_size, document_end_token;
    uint64_t identity;
    uint16_t bytes[256]; /* the token of each byte */
    struct bpe_pair pairs[1 << BPE_PAIR_TABLE_BITS];
};

/* Returns the pair's slot, or an empty one. */
static inline const struct bpe_pair *bpe_find_pair(const struct bpe *bpe, uint16_t left,
                                                   uint16_t right)
{
    uint64_t key = (uint64_t)left << 16 | right;
    size_t slot = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - BPE_PAIR_TABLE_BITS));
    for (;; slot = (slot + 1) % (1 << BPE_PAIR_TABLE_BITS)) {
        const struct bpe_pair *pair = &bpe->pairs[slot];
        if (pair->merged_token == BPE_NONE || (pair->left == left && pair->right == right))
            return pair;
    }
}

#endif
