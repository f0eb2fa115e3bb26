/*
 * order — which sample is at position p of an epoch. Computed, not stored: no table, no generator,
 * no I/O.
 *
 * 1. The N samples are cut into K = ceil(N / run) runs of neighbors (the last may be short), and
 *    the runs are permuted, keyed by (seed, dataset, epoch).
 * 2. Lane l of L owns [l*q + min(l, r), + q + (l < r)) of the permuted line, q = N / L, r = N % L,
 *    in windows of w (the first window of lane l is w - l*w/L long, so that lanes do not change
 *    windows together). Each window is permuted, keyed by (seed, dataset, epoch, lane, window).
 * 3. Position p is lane p mod L, offset p div L. (Positions beyond q * L are the r lanes' last
 *    samples.)
 *
 * ORDER_FULL is one lane and one window; ORDER_SEQUENTIAL the identity. docs/reference/order.md
 * specifies the keys exactly.
 */
#ifndef MILLRACE_SAMPLER_ORDER_H
#define MILLRACE_SAMPLER_ORDER_H

#include "base/cipher.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Part of every saved state; increment it whenever the sample at a position changes. */
enum { ORDER_VERSION = 1 };

enum order_kind { ORDER_SHUFFLE, ORDER_FULL, ORDER_SEQUENTIAL };

enum { ORDER_LANES_DEFAULT = 64, ORDER_RUN_BYTES = 1 << 20, ORDER_WINDOW_SAMPLES_MAX = 1 << 18 };

/* Immutable; passed by value. Resolved: no field is "auto". */
struct order_params {
    enum order_kind kind;
    uint32_t dataset; /* its number in a mix, below 2^16; 0 if it is the only one */
    uint64_t samples; /* N >= 1, below 2^48 */
    uint64_t seed;
    uint64_t lanes;  /* L, 1..N */
    uint64_t window; /* w, 1..N, samples per lane */
    uint64_t run;    /* c, 1..N, samples */
};

/* Fills in fields that are 0: lanes = 64 (N if fewer), run = max(1, min(2^20 / mean sample bytes, N
 * / lanes)), window = max(1, min(N/4, 2^18) / lanes). Clamps all three to N; beyond N, only lanes
 * would change the order. For full and sequential orders, lanes, window and run are 1, N, 1. */
void order_params_resolve(struct order_params *params, uint64_t mean_sample_bytes);

/* One epoch of one order; immutable after init, passed by value, about 300 bytes. */
struct order {
    struct order_params params;
    uint32_t epoch;
    uint64_t runs;            /* K */
    uint64_t short_slot;      /* z: the slot of the short run, or K if there is none */
    uint64_t short_samples;   /* s */
    struct cipher run_cipher; /* over K runs */
};

void order_init(struct order *order, const struct order_params *params, uint32_t epoch);

/* position < samples. Keying a window costs more than a lookup in it. order_cache keeps the ciphers
 * of the latest windows, so that walking positions in order is cheap; the result does not depend on
 * it. cache may be NULL. */
struct order_cache;
uint64_t order_sample(const struct order *order, struct order_cache *cache, uint64_t position);
/* The inverse, for tests and queries: the position of a sample. */
uint64_t order_position(const struct order *order, uint64_t sample);

/* One entry per lane (at most 64 Ki). NULL: out of memory. Use a cache with one set of params.
 * Owner thread. */
struct order_cache *order_cache_open(const struct order_params *params);
void order_cache_close(struct order_cache *cache);

const char *order_kind_name(enum order_kind kind); /* "shuffle", "full", "sequential" */

#ifdef __cplusplus
}
#endif

#endif
