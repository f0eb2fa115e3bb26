/*
 * sampler — positions to samples, for one dataset or a mix; who computes which micro-batch; the
 * cursor; the digests.
 *
 * A step of global batch B has M = B/b micro-batches of b samples: micro-batch j, item i of step t
 * is position t*B + i*M + j. **Ranks own micro-batches, never positions**: micro-batch j holds the
 * same samples whoever computes it.
 */
#ifndef MILLRACE_SAMPLER_SAMPLER_H
#define MILLRACE_SAMPLER_SAMPLER_H

#include "base/err.h"
#include "sampler/mix.h"
#include "sampler/order.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SAMPLER_SAMPLES_MAX                                                                        \
    ((UINT64_C(1) << 48) -                                                                         \
     1) /* of a dataset, or a mix: Philox keeps 16 bits of the word for draws */

enum {
    BATCHING_SAMPLES_MAX = 1 << 30
}; /* of a global batch, so that products with a rank fit 64 bits */

/* How positions become steps and micro-batches. Immutable. */
struct batching {
    uint64_t global;      /* B, samples */
    uint64_t micro;       /* b, divides B */
    uint32_t rank, ranks; /* W <= M */
    /* The rank owns the j = rank (mod W), where gradients are sharded at every micro-batch; else a
     * contiguous range. */
    bool interleaved;
};

/* -EINVAL with detail: micro does not divide global, more ranks than micro-batches, no such
 * rank. */
int batching_check(const struct batching *batching, struct err *err);

static inline uint64_t batching_micros(const struct batching *batching) /* M */
{
    return batching->global / batching->micro;
}

/* How many micro-batches of a step this rank owns, and the n-th of them (n < count): rank r of W
 * owns [rM/W, (r+1)M/W), or those congruent to r mod W. */
uint64_t batching_owned_count(const struct batching *batching);
uint64_t batching_owned(const struct batching *batching, uint64_t n);

static inline uint64_t batching_position(const struct batching *batching, uint64_t step,
                                         uint64_t micro, uint64_t item)
{
    return step * batching->global + item * batching_micros(batching) + micro;
}

/* One sample, everything that it is keyed by. */
struct sample_ref {
    uint32_t dataset;
    uint32_t epoch; /* of that dataset */
    uint64_t sample;
};

/* Where a run stands, and two sums, mod 2^64, that prove what was delivered. By value in every
 * checkpoint. */
struct cursor {
    uint64_t fingerprint; /* of the dataset; of a mix: see sampler_mix_fingerprint */
    uint64_t seed;
    uint32_t epoch;
    uint64_t position; /* within the epoch: the next one to be delivered */
    uint64_t once;     /* sum of xxh3(dataset, epoch, sample): equal sums, equal sets */
    uint64_t order;    /* sum of xxh3(epoch, position, dataset, sample): equal sums, equal order */
    struct order_params params; /* of a mix: samples of an epoch, the rest as it was asked for */
    uint32_t order_version;
};

/* The terms of the two sums, hashed over little-endian bytes: {dataset u32, epoch u32, sample u64}
 * and {epoch u32, dataset u32, position u64, sample u64}. */
uint64_t digest_once_term(struct sample_ref ref);
uint64_t digest_order_term(uint32_t epoch, uint64_t position, struct sample_ref ref);

/* The sampler: an order an epoch, cached windows, positions within one epoch. Owner thread; no
 * allocation after open. params are resolved (order_params_resolve); -EINVAL where they are out of
 * range, -ENOMEM. */
struct sampler;
int sampler_open(const struct order_params *params, struct sampler **ret_sampler, struct err *err);
/* The same of a mix. Each dataset has its own order, keyed by its place in the list (order.dataset
 * is filled in), and its own epochs: see mix.h. -EINVAL also for weights that mix_weights_reduce
 * refuses. */
struct sampler_source {
    struct order_params order;
    uint64_t weight;
};
int sampler_open_mix(const struct sampler_source *sources, uint32_t count,
                     struct sampler **ret_sampler, struct err *err);
void sampler_close(struct sampler *sampler); /* NULL is fine */
/* Positions of an epoch: the samples of all datasets together. */
uint64_t sampler_samples(const struct sampler *sampler);
/* epoch and position are the mix's; the sample's are its dataset's. position < sampler_samples. */
struct sample_ref sampler_at(struct sampler *sampler, uint32_t epoch, uint64_t position);

/* Of datasets and their reduced weights: their own fingerprint where there is one, else XXH3-64
 * over {fingerprint u64, weight u64} of each, little-endian. */
uint64_t sampler_mix_fingerprint(const uint64_t *fingerprints, const uint64_t *weights,
                                 uint32_t count);

#ifdef __cplusplus
}
#endif

#endif
