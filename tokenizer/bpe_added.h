/*
 * bpe_added — added tokens: texts that a tokenizer replaces by one token wherever they occur,
 * before it normalizes and splits the text in between.
 *
 * Matches are leftmost, then longest, and do not overlap. A match of a special token stays plain
 * text, as in tokenizers with encode_special_tokens, but nothing that overlaps it matches.
 */
#ifndef MILLRACE_TOKENIZER_BPE_ADDED_H
#define MILLRACE_TOKENIZER_BPE_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Owned by struct bpe_added. */
struct bpe_added_token {
    char *text;
    size_t bytes;
    uint32_t token;
    bool is_special;
};

/* All zeros: no tokens. Immutable after bpe_added_sort. */
struct bpe_added {
    struct bpe_added_token *tokens; /* by first byte, then longest first */
    size_t count;
    uint32_t first[257]; /* tokens that begin with byte b: [first[b], first[b + 1]) */
    bool is_empty;       /* without a token that is not special */
    int only_first;      /* the first byte of all tokens; -1: several */
};

void bpe_added_deinit(struct bpe_added *added);
/* Copies the text, of at least one byte. -ENOMEM. */
int bpe_added_add(struct bpe_added *added, const char *text, uint32_t token, bool is_special);
void bpe_added_sort(struct bpe_added *added);

/* Returns the first match at or after `at` of a token that is not special, and its offset; NULL if
 * there is none. Requires !is_empty. */
const struct bpe_added_token *bpe_added_find(const struct bpe_added *added, const uint8_t *text,
                                             size_t bytes, size_t at, size_t *ret_begin);

#endif
