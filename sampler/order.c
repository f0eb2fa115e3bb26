/*
 * order — see order.h.
 *
 *     position --(lane, offset)--> offset in window
 *     offset in window --window cipher--> place in the permuted sequence
 *     place --(slot, rest)--> --run cipher--> run --> sample
 */
#include "sampler/order.h"

#include "base/bytes.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

/* Purpose of a key; part of ORDER_VERSION. */
enum { KEY_RUNS = 1, KEY_WINDOW = 2 };

/* Second word of a key: dataset:16 | purpose:16 | epoch:32. */
static uint64_t key_word(const struct order *order, uint64_t what)
{
    return (uint64_t)order->params.dataset << 48 | what << 32 | order->epoch;
}

enum { CACHE_ENTRIES_MAX = 1 << 16 }; /* 152 bytes each; more lanes share entries */

struct cache_entry {
    bool is_used;
    uint32_t epoch;
    uint64_t lane, window;
    struct cipher cipher;
};

struct order_cache {
    uint64_t entries;
    struct cache_entry entry[];
};

/* A lane's window: [begin, begin + samples) of the permuted sequence. */
struct window {
    uint64_t lane, number;
    uint64_t begin, samples;
};

const char *order_kind_name(enum order_kind kind)
{
    switch (kind) {
    case ORDER_SHUFFLE:
        return "shuffle";
    case ORDER_FULL:
        return "full";
    case ORDER_SEQUENTIAL:
        break;
    }
    return "sequential";
}

void order_params_resolve(struct order_params *params, uint64_t mean_sample_bytes)
{
    uint64_t samples = params->samples;
    if (params->kind != ORDER_SHUFFLE) {
        params->lanes = 1;
        params->window = samples;
        params->run = 1;
        return;
    }
    if (params->lanes == 0)
        params->lanes = ORDER_LANES_DEFAULT;
    params->lanes = bytes_min(params->lanes, samples);
    if (params->window == 0)
        params->window = bytes_min(samples / 4, ORDER_WINDOW_SAMPLES_MAX) / params->lanes;
    /* At least one run per lane, so that a small dataset is shuffled. */
    if (params->run == 0)
        params->run = bytes_min(ORDER_RUN_BYTES / (mean_sample_bytes ? mean_sample_bytes : 1),
                                samples / params->lanes);
    /* A window above N has the same effect as N. */
    params->window = bytes_min(params->window ? params->window : 1, samples);
    params->run = bytes_min(params->run ? params->run : 1, samples);
}

void order_init(struct order *order, const struct order_params *params, uint32_t epoch)
{
    uint64_t samples = params->samples, run = params->run;
    assert(samples >= 1 && samples < UINT64_C(1) << 48 && params->dataset < 1 << 16);
    assert(params->lanes >= 1 && params->lanes <= samples);
    assert(params->window >= 1 && params->window <= samples && run >= 1 && run <= samples);
    *order = (struct order){.params = *params, .epoch = epoch, .runs = (samples + run - 1) / run};
    order->short_run_samples = samples - (order->runs - 1) * run;
    uint64_t key[4] = {params->seed, key_word(order, KEY_RUNS), 0, 0};
    cipher_init(&order->run_cipher, order->runs, key);
    bool is_short = order->short_run_samples < run;
    order->short_run_slot =
        is_short ? cipher_decrypt(&order->run_cipher, order->runs - 1) : order->runs;
}

/* The first place of the lane, 0..L; for L, the end of the last lane. */
static uint64_t lane_begin(const struct order_params *params, uint64_t lane)
{
    return lane * (params->samples / params->lanes) +
           bytes_min(lane, params->samples % params->lanes);
}

/* Finds the window that holds the lane's sample at `offset`. */
static struct window find_window(const struct order_params *params, uint64_t lane, uint64_t offset)
{
    uint64_t first = lane_begin(params, lane), w = params->window;
    /* less than w, so that the first window is not empty */
    uint64_t stagger = (uint64_t)((unsigned __int128)lane * w / params->lanes);
    uint64_t number = 0, begin = 0, samples = w - stagger;
    if (offset >= samples) {
        number = 1 + (offset - samples) / w;
        begin = samples + (number - 1) * w;
        samples = w;
    }
    samples = bytes_min(samples, lane_begin(params, lane + 1) - first - begin);
    return (struct window){
        .lane = lane, .number = number, .begin = first + begin, .samples = samples};
}

static void init_window_cipher(const struct order *order, const struct window *window,
                               struct cipher *cipher)
{
    uint64_t key[4] = {order->params.seed, key_word(order, KEY_WINDOW), window->lane,
                       window->number};
    cipher_init(cipher, window->samples, key);
}

/* Returns the window's cipher, from the cache or, without one, computed in *fallback. */
static const struct cipher *get_window_cipher(const struct order *order, struct order_cache *cache,
                                              const struct window *window, struct cipher *fallback)
{
    if (!cache) {
        init_window_cipher(order, window, fallback);
        return fallback;
    }
    struct cache_entry *entry = &cache->entry[window->lane % cache->entries];
    bool hit = entry->is_used && entry->epoch == order->epoch && entry->lane == window->lane &&
               entry->window == window->number;
    if (!hit) {
        init_window_cipher(order, window, &entry->cipher);
        entry->is_used = true;
        entry->epoch = order->epoch;
        entry->lane = window->lane;
        entry->window = window->number;
    }
    return &entry->cipher;
}

/* Returns the sample at place u of the permuted sequence. */
static uint64_t sample_at_place(const struct order *order, uint64_t u)
{
    uint64_t run = order->params.run;
    if (u >= order->short_run_slot * run + order->short_run_samples)
        u += run - order->short_run_samples;
    return cipher_encrypt(&order->run_cipher, u / run) * run + u % run;
}

static uint64_t find_place(const struct order *order, uint64_t sample)
{
    uint64_t run = order->params.run;
    uint64_t slot = cipher_decrypt(&order->run_cipher, sample / run);
    uint64_t u = slot * run + sample % run;
    return slot > order->short_run_slot ? u - (run - order->short_run_samples) : u;
}

uint64_t order_sample(const struct order *order, struct order_cache *cache, uint64_t position)
{
    const struct order_params *params = &order->params;
    assert(position < params->samples);
    if (params->kind == ORDER_SEQUENTIAL)
        return position;
    uint64_t lane = position % params->lanes, offset = position / params->lanes;
    struct window window = find_window(params, lane, offset);
    uint64_t place = lane_begin(params, lane) + offset;
    struct cipher fallback;
    const struct cipher *cipher = get_window_cipher(order, cache, &window, &fallback);
    return sample_at_place(order, window.begin + cipher_encrypt(cipher, place - window.begin));
}

uint64_t order_position(const struct order *order, uint64_t sample)
{
    const struct order_params *params = &order->params;
    assert(sample < params->samples);
    if (params->kind == ORDER_SEQUENTIAL)
        return sample;
    uint64_t place = find_place(order, sample);
    uint64_t q = params->samples / params->lanes, r = params->samples % params->lanes;
    uint64_t longer = r * (q + 1); /* end of the first r lanes, which have one more sample */
    uint64_t lane = place < longer ? place / (q + 1) : r + (place - longer) / q;
    uint64_t first = lane_begin(params, lane);
    struct window window = find_window(params, lane, place - first);
    struct cipher cipher;
    init_window_cipher(order, &window, &cipher);
    uint64_t offset = window.begin - first + cipher_decrypt(&cipher, place - window.begin);
    return offset * params->lanes + lane;
}

struct order_cache *order_cache_open(const struct order_params *params)
{
    uint64_t entries = bytes_min(params->lanes, CACHE_ENTRIES_MAX);
    struct order_cache *cache = calloc(1, sizeof *cache + entries * sizeof cache->entry[0]);
    if (cache)
        cache->entries = entries;
    return cache;
}

void order_cache_close(struct order_cache *cache)
{
    free(cache);
}
