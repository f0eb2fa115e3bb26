/*
 * bpe_encode — see bpe.h. Turns words into tokens.
 *
 * Short words are merged in a small array; long ones (a megabyte of spaces) with a linked list and
 * a heap of candidate pairs in O(n log n). Both merge in the same order.
 */
#include "convert/bpe/bpe.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "convert/bpe/bpe_split.h"
#include "convert/bpe/bpe_vocabulary.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHORT_WORD_BYTES_MAX = 64,
    CACHE_SLOTS = 1 << 14, /* 48 bytes each: 768 KiB, about the size of a core's L2 cache */
    CACHED_WORD_BYTES_MAX = 30,
    CACHED_WORD_TOKENS_MAX = 8,
};

/* bytes: 0 if the slot is empty. */
struct cached_word {
    uint16_t tokens[CACHED_WORD_TOKENS_MAX];
    uint8_t bytes, tokens_count;
    uint8_t text[CACHED_WORD_BYTES_MAX];
};
static_assert(sizeof(struct cached_word) == 48, "CACHE_SLOTS assumes this size");

struct node {
    uint32_t previous, next; /* NODE_NONE: none */
    uint16_t token;          /* BPE_NONE: merged into the previous node */
};
#define NODE_NONE UINT32_MAX

struct bpe_encoder {
    const struct bpe *bpe;
    struct cached_word *cache; /* CACHE_SLOTS, indexed by a word's hash */
    struct node *nodes;        /* [nodes_max]; long words need one node per byte */
    /* 3 * nodes_max entries rank << 32 | left node, lowest first; some entries are stale. */
    uint64_t *heap;
    size_t nodes_max, heap_count;
};

int bpe_encoder_open(const struct bpe *bpe, struct bpe_encoder **ret_encoder, struct err *err)
{
    struct bpe_encoder *encoder = calloc(1, sizeof *encoder);
    struct cached_word *cache = calloc(CACHE_SLOTS, sizeof *cache);
    if (!encoder || !cache) {
        free(encoder);
        free(cache);
        return err_set(err, -ENOMEM, "out of memory for a tokenizer");
    }
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
    free(encoder);
}

/* Merges in place and returns the number of tokens left. ranks[i]: rank of the pair of tokens i and
 * i + 1. */
static size_t merge_short_word(const struct bpe *bpe, uint16_t *tokens, size_t count)
{
    uint16_t ranks[SHORT_WORD_BYTES_MAX];
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
    for (uint32_t i = 0; i != NODE_NONE; i = encoder->nodes[i].next) {
        bytes_put_u16(tokens->data + tokens->bytes, encoder->nodes[i].token);
        tokens->bytes += BPE_TOKEN_BYTES;
    }
    return 0;
}

static void encode_short_word(struct bpe_encoder *encoder, const uint8_t *word, size_t bytes,
                              struct str *tokens)
{
    struct cached_word *slot = NULL;
    if (bytes <= CACHED_WORD_BYTES_MAX) {
        slot = &encoder->cache[hash_64(word, bytes) % CACHE_SLOTS];
        if (slot->bytes == bytes && memcmp(slot->text, word, bytes) == 0) {
            size_t found_bytes = slot->tokens_count * (size_t)BPE_TOKEN_BYTES;
            memcpy(tokens->data + tokens->bytes, slot->tokens, found_bytes);
            tokens->bytes += found_bytes;
            return;
        }
    }
    uint16_t merged[SHORT_WORD_BYTES_MAX];
    for (size_t i = 0; i < bytes; i++)
        merged[i] = encoder->bpe->bytes[word[i]];
    size_t count = merge_short_word(encoder->bpe, merged, bytes);
    memcpy(tokens->data + tokens->bytes, merged, count * BPE_TOKEN_BYTES);
    tokens->bytes += count * BPE_TOKEN_BYTES;
    if (slot && count <= CACHED_WORD_TOKENS_MAX) {
        slot->bytes = (uint8_t)bytes;
        slot->tokens_count = (uint8_t)count;
        memcpy(slot->text, word, bytes);
        memcpy(slot->tokens, merged, count * BPE_TOKEN_BYTES);
    }
}

int bpe_encode(struct bpe_encoder *encoder, const void *text, size_t bytes, struct str *tokens,
               struct err *err)
{
    assert(bytes <= BPE_TEXT_BYTES_MAX);
    if (str_reserve(tokens, bytes * BPE_TOKEN_BYTES)) /* at most one token per byte */
        return err_set(err, -ENOMEM, "out of memory for tokens");
    for (size_t at = 0; at < bytes;) {
        size_t end = bpe_word_end(text, bytes, at);
        const uint8_t *word = (const uint8_t *)text + at;
        int status = 0;
        if (end - at <= SHORT_WORD_BYTES_MAX)
            encode_short_word(encoder, word, end - at, tokens);
        else
            status = encode_long_word(encoder, word, end - at, tokens, err);
        if (status)
            return status;
        at = end;
    }
    if (bytes > 0)
        tokens->data[tokens->bytes] = '\0';
    return 0;
}
