/*
 * order — see order.h.
 *
 *     position --(lane, offset)--> offset in window --window cipher--> place
 *     place --(slot, offset in run)--> --run cipher--> run
 *     offset in run --order of quarters--> quarter --quarter cipher--> sample
 */
#include "sampler/order.h"

#include "base/bytes.h"
#include "sampler/gcd.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

/* Purpose of a key; part of ORDER_VERSION. */
enum { KEY_RUNS = 1, KEY_WINDOW = 2, KEY_IN_RUN = 3 };

/* Second word of a key: dataset:16 | purpose:16 | epoch:32. */
static uint64_t key_word(const struct order *order, uint64_t what)
{
    return (uint64_t)order->params.dataset << 48 | what << 32 | order->epoch;
}

enum { CACHE_ENTRIES_MAX = 1 << 16 }; /* 300 bytes each; more lanes share entries */

/* A lane's window: [begin, begin + samples) of the lane's places. */
struct window {
    uint64_t lane, number;
    uint64_t begin, samples;
};

struct window_permutation {
    struct window window;
    struct cipher cipher;
};

/* The run in a slot, and one of its quarters. */
struct run_permutation {
    uint64_t slot, run, samples;
    uint32_t quarters[ORDER_QUARTERS]; /* in their permuted order */
    uint32_t quarter;                  /* the one that `cipher` permutes; or ORDER_QUARTERS */
    struct cipher cipher;
};

struct cache_entry {
    bool has_window, has_run;
    uint32_t window_epoch, run_epoch;
    struct window_permutation window;
    struct run_permutation run;
};

struct order_cache {
    uint64_t entries;
    struct cache_entry entry[];
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

static uint64_t default_run(uint64_t lane_samples, uint64_t mean_sample_bytes)
{
    uint64_t run =
        bytes_min(ORDER_RUN_BYTES / (mean_sample_bytes ? mean_sample_bytes : 1), lane_samples / 4);
    while (run > 1 && greatest_common_divisor(run, lane_samples) != 1)
        run--;
    return run ? run : 1;
}

void order_params_resolve(struct order_params *params, uint64_t mean_sample_bytes,
                          uint64_t lanes_default)
{
    uint64_t samples = params->samples;
    if (params->kind != ORDER_SHUFFLE) {
        params->lanes = 1;
        params->window = samples;
        params->run = 1;
        return;
    }
    if (params->lanes == 0)
        params->lanes = lanes_default;
    params->lanes = bytes_min(params->lanes, samples);
    if (params->window == 0)
        params->window = 1;
    if (params->run == 0)
        params->run = default_run(samples / params->lanes, mean_sample_bytes);
    /* A window above N has the same effect as N. */
    params->window = bytes_min(params->window, samples);
    params->run = bytes_min(params->run, samples);
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

static void init_window(const struct order *order, const struct window *window,
                        struct window_permutation *permutation)
{
    uint64_t key[4] = {order->params.seed, key_word(order, KEY_WINDOW), window->lane,
                       window->number};
    permutation->window = *window;
    cipher_init(&permutation->cipher, window->samples, key);
}

/* Returns the window's permutation, from the cache or, without one, computed in *fallback. */
static const struct window_permutation *get_window(const struct order *order,
                                                   struct cache_entry *entry,
                                                   const struct window *window,
                                                   struct window_permutation *fallback)
{
    if (!entry) {
        init_window(order, window, fallback);
        return fallback;
    }
    const struct window *cached = &entry->window.window;
    bool hit = entry->has_window && entry->window_epoch == order->epoch &&
               cached->lane == window->lane && cached->number == window->number;
    if (!hit) {
        init_window(order, window, &entry->window);
        entry->has_window = true;
        entry->window_epoch = order->epoch;
    }
    return &entry->window;
}

/* ---- Runs. ---- */

/* The first place of a slot. */
static uint64_t slot_begin(const struct order *order, uint64_t slot)
{
    uint64_t run = order->params.run;
    return slot * run - (slot > order->short_run_slot ? run - order->short_run_samples : 0);
}

static uint64_t slot_at(const struct order *order, uint64_t place)
{
    uint64_t run = order->params.run;
    if (place >= order->short_run_slot * run + order->short_run_samples)
        place += run - order->short_run_samples;
    return place / run;
}

/* The first sample of a quarter of a run; for ORDER_QUARTERS, the end of the run. */
static uint64_t quarter_begin(const struct run_permutation *run, uint32_t quarter)
{
    return run->samples / ORDER_QUARTERS * quarter +
           run->samples % ORDER_QUARTERS * quarter / ORDER_QUARTERS;
}

static uint64_t quarter_samples(const struct run_permutation *run, uint32_t quarter)
{
    return quarter_begin(run, quarter + 1) - quarter_begin(run, quarter);
}

static void init_run(const struct order *order, uint64_t slot, struct run_permutation *run)
{
    struct cipher cipher;
    run->slot = slot;
    run->run = cipher_encrypt(&order->run_cipher, slot);
    run->samples = slot == order->short_run_slot ? order->short_run_samples : order->params.run;
    uint64_t key[4] = {order->params.seed, key_word(order, KEY_IN_RUN), run->run, ORDER_QUARTERS};
    cipher_init(&cipher, ORDER_QUARTERS, key);
    for (uint32_t i = 0; i < ORDER_QUARTERS; i++)
        run->quarters[i] = (uint32_t)cipher_encrypt(&cipher, i);
    run->quarter = ORDER_QUARTERS;
}

static void select_quarter(const struct order *order, struct run_permutation *run, uint32_t quarter)
{
    if (run->quarter == quarter)
        return;
    uint64_t key[4] = {order->params.seed, key_word(order, KEY_IN_RUN), run->run, quarter};
    cipher_init(&run->cipher, quarter_samples(run, quarter), key);
    run->quarter = quarter;
}

static struct run_permutation *get_run(const struct order *order, struct cache_entry *entry,
                                       uint64_t slot, struct run_permutation *fallback)
{
    if (!entry) {
        init_run(order, slot, fallback);
        return fallback;
    }
    if (!entry->has_run || entry->run_epoch != order->epoch || entry->run.slot != slot) {
        init_run(order, slot, &entry->run);
        entry->has_run = true;
        entry->run_epoch = order->epoch;
    }
    return &entry->run;
}

/* Returns the sample at an offset of the permuted run. */
static uint64_t sample_in_run(const struct order *order, struct run_permutation *run,
                              uint64_t offset)
{
    uint32_t i = 0;
    while (offset >= quarter_samples(run, run->quarters[i]))
        offset -= quarter_samples(run, run->quarters[i++]);
    select_quarter(order, run, run->quarters[i]);
    return run->run * order->params.run + quarter_begin(run, run->quarter) +
           cipher_encrypt(&run->cipher, offset);
}

/* The inverse of sample_in_run. */
static uint64_t offset_in_run(const struct order *order, struct run_permutation *run,
                              uint64_t sample)
{
    uint64_t in_run = sample - run->run * order->params.run, offset = 0;
    uint32_t quarter = 0;
    while (in_run >= quarter_begin(run, quarter + 1))
        quarter++;
    for (uint32_t i = 0; run->quarters[i] != quarter; i++)
        offset += quarter_samples(run, run->quarters[i]);
    select_quarter(order, run, quarter);
    return offset + cipher_decrypt(&run->cipher, in_run - quarter_begin(run, quarter));
}

/* ---- Lookups. ---- */

uint64_t order_sample(const struct order *order, struct order_cache *cache, uint64_t position)
{
    const struct order_params *params = &order->params;
    assert(position < params->samples);
    if (params->kind == ORDER_SEQUENTIAL)
        return position;
    uint64_t lane = position % params->lanes, offset = position / params->lanes;
    uint64_t place = lane_begin(params, lane) + offset;
    struct cache_entry *entry = cache ? &cache->entry[lane % cache->entries] : NULL;
    if (params->window > 1) {
        struct window window = find_window(params, lane, offset);
        struct window_permutation fallback;
        const struct window_permutation *permutation = get_window(order, entry, &window, &fallback);
        place = window.begin + cipher_encrypt(&permutation->cipher, place - window.begin);
    }
    uint64_t slot = slot_at(order, place);
    if (params->run == 1)
        return cipher_encrypt(&order->run_cipher, slot);
    struct run_permutation fallback, *run = get_run(order, entry, slot, &fallback);
    return sample_in_run(order, run, place - slot_begin(order, slot));
}

/* Returns the end of the part of the permuted run that has the sample at `offset`. */
static uint64_t part_end(const struct run_permutation *run, uint64_t offset, uint32_t quarters)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < ORDER_QUARTERS; i++) {
        end += quarter_samples(run, run->quarters[i]);
        if ((i + 1) % quarters == 0 && offset < end)
            break;
    }
    return end;
}

uint64_t order_neighbors_ahead(const struct order *order, struct order_cache *cache,
                               uint64_t position, uint32_t quarters)
{
    const struct order_params *params = &order->params;
    assert(position < params->samples && ORDER_QUARTERS % quarters == 0);
    if (params->kind == ORDER_SEQUENTIAL)
        return params->samples - position - 1;
    if (params->window > 1 || params->run == 1)
        return 0;
    uint64_t lane = position % params->lanes, offset = position / params->lanes;
    uint64_t place = lane_begin(params, lane) + offset, slot = slot_at(order, place);
    struct run_permutation fallback;
    struct cache_entry *entry = cache ? &cache->entry[lane % cache->entries] : NULL;
    const struct run_permutation *run = get_run(order, entry, slot, &fallback);
    uint64_t begin = slot_begin(order, slot);
    uint64_t end = begin + part_end(run, place - begin, quarters);
    return bytes_min(end, lane_begin(params, lane + 1)) - place - 1;
}

uint64_t order_position(const struct order *order, uint64_t sample)
{
    const struct order_params *params = &order->params;
    assert(sample < params->samples);
    if (params->kind == ORDER_SEQUENTIAL)
        return sample;
    uint64_t slot = cipher_decrypt(&order->run_cipher, sample / params->run);
    struct run_permutation run;
    init_run(order, slot, &run);
    uint64_t place = slot_begin(order, slot) + offset_in_run(order, &run, sample);
    uint64_t q = params->samples / params->lanes, r = params->samples % params->lanes;
    uint64_t longer = r * (q + 1); /* end of the first r lanes, which have one more sample */
    uint64_t lane = place < longer ? place / (q + 1) : r + (place - longer) / q;
    uint64_t first = lane_begin(params, lane);
    if (params->window > 1) {
        struct window window = find_window(params, lane, place - first);
        struct window_permutation permutation;
        init_window(order, &window, &permutation);
        place = window.begin + cipher_decrypt(&permutation.cipher, place - window.begin);
    }
    return (place - first) * params->lanes + lane;
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
