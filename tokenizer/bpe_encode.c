/*
 * bpe_encode — see bpe.h. Turns words into tokens.
 *
 * Words that occur often are in a cache. Other short words are merged in a small array; long ones
 * (a megabyte of spaces) with a linked list and a heap of candidate pairs in O(n log n). Both merge
 * in the same order.
 */
#include "tokenizer/bpe.h"

#include "base/bytes.h"
#include "tokenizer/bpe_split.h"
#include "tokenizer/bpe_vocabulary.h"
#include "tokenizer/unicode_nfc.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHORT_WORD_BYTES_MAX = 64,
    CACHE_SLOTS_BITS = 15, /* of 64 bytes: 2 MiB, about the size of a core's caches */
    CACHED_WORD_BYTES_MAX = 31,
    CACHED_WORD_TOKENS_MAX = 7,
    KEY_WORDS = 4,
    WORDS_AHEAD = 16, /* enough time for a load from a distant cache */
};

/* A word of up to 31 bytes, padded with zeros; the last byte is its length. */
struct word_key {
    uint64_t parts[KEY_WORDS];
};

/* tokens_count: 0 if the slot is empty. */
struct cached_word {
    struct word_key key;
    uint32_t tokens[CACHED_WORD_TOKENS_MAX];
    uint32_t tokens_count;
};
static_assert(sizeof(struct cached_word) == 64, "a slot is one cache line");

struct node {
    uint32_t previous, next; /* NODE_NONE: none */
    uint32_t token;          /* BPE_NONE: merged into the previous node */
};
#define NODE_NONE UINT32_MAX

struct bpe_encoder {
    const struct bpe *bpe;
    struct cached_word *cache; /* [1 << CACHE_SLOTS_BITS], indexed by a word's hash */
    struct node *nodes;        /* [nodes_max]; long words need one node per byte */
    /* 3 * nodes_max entries rank << 32 | left node, lowest first; some entries are stale. */
    uint64_t *heap;
    size_t nodes_max, heap_count;
    struct unicode_nfc nfc;
    struct str normalized;
};

int bpe_encoder_open(const struct bpe *bpe, struct bpe_encoder **ret_encoder, struct err *err)
{
    struct bpe_encoder *encoder = calloc(1, sizeof *encoder);
    size_t cache_bytes = sizeof(struct cached_word) << CACHE_SLOTS_BITS;
    struct cached_word *cache = aligned_alloc(sizeof *cache, cache_bytes);
    if (!encoder || !cache) {
        free(encoder);
        free(cache);
        return err_set(err, -ENOMEM, "out of memory for a tokenizer");
    }
    memset(cache, 0, cache_bytes);
    encoder->bpe = bpe;
    encoder->cache = cache;
    *ret_encoder = encoder;
    return 0;
}

void bpe_encoder_close(struct bpe_encoder *encoder)
{
    if (!encoder)
        return;
    free(encoder->cache);
    free(encoder->nodes);
    free(encoder->heap);
    unicode_nfc_deinit(&encoder->nfc);
    str_deinit(&encoder->normalized);
    free(encoder);
}

/* Appends tokens; the memory is reserved. */
static inline void put_tokens(const struct bpe *bpe, const uint32_t *from, size_t count,
                              struct str *tokens)
{
    char *to = tokens->data + tokens->bytes;
    size_t token_bytes = bpe_width(bpe);
    if (token_bytes == 2)
        for (size_t i = 0; i < count; i++)
            bytes_put_u16(to + 2 * i, (uint16_t)from[i]);
    else
        for (size_t i = 0; i < count; i++)
            bytes_put_u32(to + 4 * i, from[i]);
    tokens->bytes += count * token_bytes;
}

/* Merges in place and returns the number of tokens left. ranks[i]: rank of the pair of tokens i and
 * i + 1. */
static size_t merge_short_word(const struct bpe *bpe, uint32_t *tokens, size_t count)
{
    uint32_t ranks[SHORT_WORD_BYTES_MAX];
    /* An empty slot's rank is BPE_NONE. */
    for (size_t i = 0; i + 1 < count; i++)
        ranks[i] = bpe_find_pair(bpe, tokens[i], tokens[i + 1])->rank;
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (ranks[i] < ranks[best])
                best = i;
        if (ranks[best] == BPE_NONE)
            break;
        tokens[best] = bpe_find_pair(bpe, tokens[best], tokens[best + 1])->merged_token;
        count--;
        memmove(tokens + best + 1, tokens + best + 2, (count - best - 1) * sizeof *tokens);
        memmove(ranks + best, ranks + best + 1, (count - best - 1) * sizeof *ranks);
        if (best > 0)
            ranks[best - 1] = bpe_find_pair(bpe, tokens[best - 1], tokens[best])->rank;
        if (best + 1 < count)
            ranks[best] = bpe_find_pair(bpe, tokens[best], tokens[best + 1])->rank;
    }
    return count;
}

static void heap_push(struct bpe_encoder *encoder, uint64_t candidate)
{
    size_t at = encoder->heap_count++;
    for (; at > 0 && candidate < encoder->heap[(at - 1) / 2]; at = (at - 1) / 2)
        encoder->heap[at] = encoder->heap[(at - 1) / 2];
    encoder->heap[at] = candidate;
}

static uint64_t heap_pop(struct bpe_encoder *encoder)
{
    uint64_t lowest = encoder->heap[0], last = encoder->heap[--encoder->heap_count];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < encoder->heap_count) {
        if (child + 1 < encoder->heap_count && encoder->heap[child + 1] < encoder->heap[child])
            child++;
        if (last <= encoder->heap[child])
            break;
        encoder->heap[at] = encoder->heap[child];
        at = child;
    }
    encoder->heap[at] = last;
    return lowest;
}

/* Returns an empty slot if the node and the next one do not merge. */
static const struct bpe_pair *find_pair_at(const struct bpe_encoder *encoder, uint32_t left)
{
    static const struct bpe_pair none = {BPE_NONE, BPE_NONE, BPE_NONE, BPE_NONE};
    const struct node *node = &encoder->nodes[left];
    return node->token == BPE_NONE || node->next == NODE_NONE
               ? &none
               : bpe_find_pair(encoder->bpe, node->token, encoder->nodes[node->next].token);
}

static void push_candidate(struct bpe_encoder *encoder, uint32_t left)
{
    const struct bpe_pair *pair = find_pair_at(encoder, left);
    if (pair->merged_token != BPE_NONE)
        heap_push(encoder, (uint64_t)pair->rank << 32 | left);
}

static int reserve_nodes(struct bpe_encoder *encoder, size_t count, struct err *err)
{
    if (count <= encoder->nodes_max)
        return 0;
    free(encoder->nodes);
    free(encoder->heap);
    encoder->nodes = malloc(count * sizeof *encoder->nodes);
    /* one candidate per pair, and up to two more per merge */
    encoder->heap = malloc(3 * count * sizeof *encoder->heap);
    encoder->nodes_max = encoder->nodes && encoder->heap ? count : 0;
    return encoder->nodes_max
               ? 0
               : err_set(err, -ENOMEM, "out of memory for a word of %zu bytes", count);
}

static void merge_long_word(struct bpe_encoder *encoder)
{
    struct node *nodes = encoder->nodes;
    while (encoder->heap_count > 0) {
        uint64_t candidate = heap_pop(encoder);
        uint32_t left = (uint32_t)candidate;
        const struct bpe_pair *pair = find_pair_at(encoder, left);
        if (pair->merged_token == BPE_NONE || pair->rank != candidate >> 32)
            continue; /* stale: one node has been merged */
        uint32_t right = nodes[left].next;
        nodes[left].token = pair->merged_token;
        nodes[left].next = nodes[right].next;
        nodes[right].token = BPE_NONE;
        if (nodes[left].next != NODE_NONE)
            nodes[nodes[left].next].previous = left;
        push_candidate(encoder, left);
        if (nodes[left].previous != NODE_NONE)
            push_candidate(encoder, nodes[left].previous);
    }
}

static int encode_long_word(struct bpe_encoder *encoder, const uint8_t *word, size_t bytes,
                            struct str *tokens, struct err *err)
{
    int status = reserve_nodes(encoder, bytes, err);
    if (status)
        return status;
    for (size_t i = 0; i < bytes; i++)
        encoder->nodes[i] = (struct node){.previous = i > 0 ? (uint32_t)i - 1 : NODE_NONE,
                                          .next = i + 1 < bytes ? (uint32_t)i + 1 : NODE_NONE,
                                          .token = encoder->bpe->bytes[word[i]]};
    encoder->heap_count = 0;
    for (size_t i = 0; i + 1 < bytes; i++)
        push_candidate(encoder, (uint32_t)i);
    merge_long_word(encoder);
    for (uint32_t i = 0; i != NODE_NONE; i = encoder->nodes[i].next)
        put_tokens(encoder->bpe, &encoder->nodes[i].token, 1, tokens);
    return 0;
}

/* Merges a word of up to SHORT_WORD_BYTES_MAX bytes; returns the number of tokens. */
static size_t encode_short_word(const struct bpe *bpe, const uint8_t *word, size_t bytes,
                                uint32_t tokens[SHORT_WORD_BYTES_MAX])
{
    for (size_t i = 0; i < bytes; i++)
        tokens[i] = bpe->bytes[word[i]];
    return merge_short_word(bpe, tokens, bytes);
}

static int encode_word(struct bpe_encoder *encoder, const uint8_t *word, size_t bytes,
                       struct str *tokens, struct err *err)
{
    const struct bpe *bpe = encoder->bpe;
    uint32_t short_tokens[SHORT_WORD_BYTES_MAX];
    uint32_t whole = bpe->words ? bpe_find_word(bpe, word, bytes) : BPE_NONE;
    if (whole != BPE_NONE)
        put_tokens(bpe, &whole, 1, tokens);
    else if (bytes > SHORT_WORD_BYTES_MAX)
        return encode_long_word(encoder, word, bytes, tokens, err);
    else
        put_tokens(bpe, short_tokens, encode_short_word(bpe, word, bytes, short_tokens), tokens);
    return 0;
}

/* Returns 8 bytes of a word, padded with zeros. */
static uint64_t key_part(const uint8_t *word, size_t bytes, size_t begin)
{
    uint64_t part;
    if (bytes <= begin)
        return 0;
    memcpy(&part, word + begin, sizeof part);
    return bytes - begin >= 8 ? part : part & (UINT64_MAX >> (64 - 8 * (bytes - begin)));
}

/* bytes_left: how many may be read at word. */
static struct word_key make_key(const uint8_t *word, size_t bytes, size_t bytes_left)
{
    uint8_t copy[sizeof(struct word_key)];
    if (bytes_left < sizeof copy)
        word = memcpy(memset(copy, 0, sizeof copy), word, bytes);
    return (struct word_key){{key_part(word, bytes, 0), key_part(word, bytes, 8),
                              key_part(word, bytes, 16),
                              key_part(word, bytes, 24) | (uint64_t)bytes << 56}};
}

static size_t hash_key(const struct word_key *key)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = (key->parts[0] ^ (key->parts[1] * odd)) +
                    (key->parts[2] ^ (key->parts[3] * UINT64_C(0xc2b2ae3d27d4eb4f)));
    hash ^= hash >> 32;
    return (size_t)(hash * odd >> (64 - CACHE_SLOTS_BITS));
}

/* One by one: as vectors, the parts would wait for their stores. */
static bool has_key(const struct cached_word *slot, const struct word_key *key)
{
    return slot->key.parts[0] == key->parts[0] && slot->key.parts[3] == key->parts[3] &&
           slot->key.parts[1] == key->parts[1] && slot->key.parts[2] == key->parts[2];
}

/* Writes all tokens of a slot, whatever their number: encode_words reserves memory for them. */
static void put_slot(const struct bpe *bpe, const struct cached_word *slot, struct str *tokens)
{
    size_t end = tokens->bytes + slot->tokens_count * bpe_width(bpe);
    put_tokens(bpe, slot->tokens, CACHED_WORD_TOKENS_MAX, tokens);
    tokens->bytes = end;
}

/* A word of the text, looked up a few words later: its slot is prefetched meanwhile. */
struct next_word {
    const uint8_t *text;
    size_t bytes;
    struct word_key key; /* of words up to CACHED_WORD_BYTES_MAX bytes, like slot */
    struct cached_word *slot;
};

static void prepare_word(const struct bpe_encoder *encoder, struct next_word *word,
                         size_t bytes_left)
{
    if (word->bytes > CACHED_WORD_BYTES_MAX)
        return;
    word->key = make_key(word->text, word->bytes, bytes_left);
    word->slot = &encoder->cache[hash_key(&word->key)];
    __builtin_prefetch(word->slot);
}

/* Encodes a word of up to CACHED_WORD_BYTES_MAX bytes. */
static void encode_cached_word(const struct bpe *bpe, const struct next_word *word,
                               struct str *tokens)
{
    struct cached_word *slot = word->slot;
    if (has_key(slot, &word->key)) {
        put_slot(bpe, slot, tokens);
        return;
    }
    uint32_t merged[SHORT_WORD_BYTES_MAX];
    size_t count = 1;
    merged[0] = bpe->words ? bpe_find_word(bpe, word->text, word->bytes) : BPE_NONE;
    if (merged[0] == BPE_NONE)
        count = encode_short_word(bpe, word->text, word->bytes, merged);
    put_tokens(bpe, merged, count, tokens);
    if (count > CACHED_WORD_TOKENS_MAX)
        return;
    slot->key = word->key;
    memcpy(slot->tokens, merged, count * sizeof *merged);
    slot->tokens_count = (uint32_t)count;
}

static int encode_prepared_words(struct bpe_encoder *encoder, const struct next_word *words,
                                 size_t count, struct str *tokens, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        int status = 0;
        if (words[i].bytes <= CACHED_WORD_BYTES_MAX)
            encode_cached_word(encoder->bpe, &words[i], tokens);
        else
            status = encode_word(encoder, words[i].text, words[i].bytes, tokens, err);
        if (status)
            return status;
    }
    return 0;
}

static int encode_words(struct bpe_encoder *encoder, const uint8_t *text, size_t bytes,
                        struct str *tokens, struct err *err)
{
    enum bpe_pattern pattern = encoder->bpe->pattern;
    struct next_word words[WORDS_AHEAD];
    /* at most one token per byte */
    if (str_reserve(tokens, (bytes + CACHED_WORD_TOKENS_MAX) * bpe_width(encoder->bpe)))
        return err_set(err, -ENOMEM, "out of memory for tokens");
    for (size_t at = 0; at < bytes;) {
        size_t count = 0;
        for (; count < WORDS_AHEAD && at < bytes; count++) {
            size_t end = bpe_word_end(pattern, text, bytes, at);
            words[count].text = text + at;
            words[count].bytes = end - at;
            prepare_word(encoder, &words[count], bytes - at);
            at = end;
        }
        int status = encode_prepared_words(encoder, words, count, tokens, err);
        if (status)
            return status;
    }
    return 0;
}

/* Encodes text between added tokens. */
static int encode_plain_text(struct bpe_encoder *encoder, const uint8_t *text, size_t bytes,
                             struct str *tokens, struct err *err)
{
    if (!encoder->bpe->normalizes || unicode_nfc_stable_bytes(text, bytes) == bytes)
        return encode_words(encoder, text, bytes, tokens, err);
    struct str *normalized = &encoder->normalized;
    str_clear(normalized);
    if (unicode_nfc_normalize(&encoder->nfc, text, bytes, normalized))
        return err_set(err, -ENOMEM, "out of memory for normalized text");
    return encode_words(encoder, (const uint8_t *)normalized->data, normalized->bytes, tokens, err);
}

int bpe_encode(struct bpe_encoder *encoder, const void *text, size_t bytes, struct str *tokens,
               struct err *err)
{
    const struct bpe *bpe = encoder->bpe;
    const uint8_t *data = text;
    size_t at = 0, begin;
    const struct bpe_added_token *added;
    assert(bytes <= BPE_TEXT_BYTES_MAX);
    while (!bpe->added.is_empty && (added = bpe_added_find(&bpe->added, data, bytes, at, &begin))) {
        int status = encode_plain_text(encoder, data + at, begin - at, tokens, err);
        if (!status && str_reserve(tokens, bpe_width(bpe)))
            status = err_set(err, -ENOMEM, "out of memory for tokens");
        if (status)
            return status;
        put_tokens(bpe, &added->token, 1, tokens);
        at = begin + added->bytes;
    }
    int status = encode_plain_text(encoder, data + at, bytes - at, tokens, err);
    if (!status)
        tokens->data[tokens->bytes] = '\0';
    return status;
}
