/*
 * order — computes which sample is at position p of an epoch, without tables, generator state or
 * I/O.
 *
 * 1. The N samples are cut into K = ceil(N / run) runs of neighbors (the last may be short). The
 *    runs are permuted, keyed by (seed, dataset, epoch).
 * 2. Within each run, the quarters are permuted, and so are the samples of each quarter, keyed by
 *    (seed, dataset, epoch, run).
 * 3. Lane l of L owns q + (l < r) samples of the resulting sequence, starting at l*q + min(l, r),
 *    with q = N / L and r = N % L. With a window w above 1, each lane is also permuted in windows
 *    of w, keyed by (seed, dataset, epoch, lane, window); the first window of lane l has w - l*w/L
 *    samples, so that lanes do not change windows together.
 * 4. Position p is offset p div L of lane p mod L. Positions from q * L on are the last samples
 *    of the r longer lanes.
 *
 * With one lane per position of a batch, a lane reads its runs one after another, and a batch has
 * samples from as many places as possible.
 *
 * ORDER_FULL is one lane and one window; ORDER_SEQUENTIAL is the identity.
 * docs/reference/order.md specifies the keys.
 */
#ifndef MILLRACE_SAMPLER_ORDER_H
#define MILLRACE_SAMPLER_ORDER_H

#include "base/cipher.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Part of every saved state. Increment it if the sample at any position changes. */
enum { ORDER_VERSION = 2 };

enum order_kind { ORDER_SHUFFLE, ORDER_FULL, ORDER_SEQUENTIAL };

enum { ORDER_RUN_BYTES = 1 << 20, ORDER_QUARTERS = 4 };

/* Immutable; passed by value. Resolved parameters have no zeros that mean "default". */
struct order_params {
    enum order_kind kind;
    uint32_t dataset; /* number in a mix, below 2^16; 0 for a single dataset */
    uint64_t samples; /* N >= 1, below 2^48 */
    uint64_t seed;
    uint64_t lanes;  /* L, 1..N */
    uint64_t window; /* w, 1..N, samples per lane; 1: no window */
    uint64_t run;    /* c, 1..N, samples */
};

/* Replaces zeros: lanes = lanes_default, the samples per global batch or a multiple; window = 1;
 * run = the largest number up to 2^20 / mean_sample_bytes and up to a quarter of N / lanes that is
 * coprime to N / lanes, so that lanes do not change runs together; at least 1. Clamps all three to
 * N. Full and sequential orders get lanes 1, window N, run 1. */
void order_params_resolve(struct order_params *params, uint64_t mean_sample_bytes,
                          uint64_t lanes_default);

/* One epoch of an order. Immutable after init; passed by value, about 300 bytes. */
struct order {
    struct order_params params;
    uint32_t epoch;
    uint64_t runs;              /* K */
    uint64_t short_run_slot;    /* z: slot of the short run, or K */
    uint64_t short_run_samples; /* s */
    struct cipher run_cipher;   /* over K runs */
};

void order_init(struct order *order, const struct order_params *params, uint32_t epoch);

/* Returns the sample at position < samples. cache makes sequential lookups fast, because it keeps
 * each lane's current ciphers; it may be NULL. */
struct order_cache;
uint64_t order_sample(const struct order *order, struct order_cache *cache, uint64_t position);
/* Returns how many samples follow position in its lane that are neighbors: those of the same part
 * of its run, where parts have `quarters` (1, 2 or 4) of the run's quarters. They are at position +
 * L, position + 2 L, ... Of a sequential order, all samples are neighbors; with windows, none are.
 */
uint64_t order_neighbors_ahead(const struct order *order, struct order_cache *cache,
                               uint64_t position, uint32_t quarters);
/* The inverse of order_sample. */
uint64_t order_position(const struct order *order, uint64_t sample);

/* One entry per lane (at most 64 Ki), for one set of params and one thread. Returns NULL if out
 * of memory. */
struct order_cache *order_cache_open(const struct order_params *params);
void order_cache_close(struct order_cache *cache);

const char *order_kind_name(enum order_kind kind); /* "shuffle", "full", "sequential" */

#ifdef __cplusplus
}
#endif

#endif
