/*
 * sampler — maps positions to samples of a dataset or a mix, assigns micro-batches to ranks, and
 * defines the cursor and the digests.
 *
 * A step of global batch B has M = B/b micro-batches of b samples: item i of micro-batch j of
 * step t is position t*B + i*M + j; in a sequential order, whose micro-batches are contiguous,
 * t*B + j*b + i. **Ranks own micro-batches, never positions**: the samples of micro-batch j do not
 * depend on the rank that computes it.
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

/* Philox reserves 16 bits of the word for draws. */
#define SAMPLER_SAMPLES_MAX ((UINT64_C(1) << 48) - 1)

/* Largest global batch; products with a rank fit in 64 bits. */
enum { BATCHING_SAMPLES_MAX = 1 << 30 };

/* Immutable. */
struct batching {
    uint64_t global;      /* B, samples */
    uint64_t micro;       /* b, divides B */
    uint32_t rank, ranks; /* ranks: W <= M */
    /* True: the rank owns each j = rank (mod W), for gradients sharded at every micro-batch.
     * False: a contiguous range. */
    bool interleaved;
};

/* -EINVAL with detail: micro does not divide global, there are more ranks than micro-batches, or
 * rank is out of range. */
int batching_check(const struct batching *batching, struct err *err);

static inline uint64_t batching_micros(const struct batching *batching) /* M */
{
    return batching->global / batching->micro;
}

/* Return how many micro-batches per step this rank owns, and the n-th of them (n < count). Rank r
 * of W owns [rM/W, (r+1)M/W), or those congruent to r mod W. */
uint64_t batching_owned_count(const struct batching *batching);
uint64_t batching_owned_micro(const struct batching *batching, uint64_t n);
/* The inverse of batching_owned_micro. False if another rank owns the micro-batch. */
bool batching_owned_index(const struct batching *batching, uint64_t micro, uint64_t *ret_n);

/* The positions of a micro-batch: first, first + stride, ... */
struct batching_positions {
    uint64_t first, stride, count;
};

/* Returns the positions of micro-batch j of a step. epoch_end: the end of the epoch's positions,
 * above step * B. If it cuts the step to T < B positions, a sequential order divides them evenly:
 * micro-batch j has [j*T/M, (j+1)*T/M). In other orders it has those below epoch_end. */
struct batching_positions batching_positions(const struct batching *batching, enum order_kind kind,
                                             uint64_t epoch_end, uint64_t step, uint64_t micro);

/* Returns the micro-batch of its step that has the position, which is below epoch_end. */
uint64_t batching_micro_of(const struct batching *batching, enum order_kind kind,
                           uint64_t epoch_end, uint64_t position);

/* Identifies one sample. */
struct sample_ref {
    uint32_t dataset;
    uint32_t epoch; /* of that dataset */
    uint64_t sample;
};

/* Position of a run, and two digests (sums mod 2^64) of the samples delivered so far. Every
 * checkpoint stores it by value. */
struct cursor {
    uint64_t fingerprint; /* of the dataset or the mix (sampler_mix_fingerprint) */
    uint64_t seed;
    uint32_t epoch;
    uint64_t position;    /* within the epoch: where the next step, or what is left of it, begins */
    uint64_t micros_done; /* of that step: its first micro-batches, delivered to all ranks */
    uint64_t set_digest;  /* sum of xxh3(dataset, epoch, sample): equal for equal sets */
    uint64_t
        sequence_digest; /* sum of xxh3(epoch, position, dataset, sample): also depends on order */
    struct order_params params; /* for a mix: window and run as requested */
    uint32_t order_version;
};

/* One sample's terms of the two digests: hashes of {dataset u32, epoch u32, sample u64} and {epoch
 * u32, dataset u32, position u64, sample u64}, little-endian. */
uint64_t digest_set_term(struct sample_ref ref);
uint64_t digest_sequence_term(uint32_t epoch, uint64_t position, struct sample_ref ref);

/* Maps the positions of one dataset. One thread at a time; no allocation after open. params must
 * be resolved (order_params_resolve). -EINVAL if out of range; -ENOMEM. */
struct sampler;
int sampler_open(const struct order_params *params, struct sampler **ret_sampler, struct err *err);
/* Each dataset has its own epochs (mix.h) and its own order, keyed by its index in the list
 * (order.dataset is filled in). lanes: those of the datasets, at least 1. The mix has as many lanes
 * if its epoch takes at least SAMPLER_MIX_TURNS_MIN turns of them, otherwise one, because with few
 * turns some lanes would reach a later epoch of a dataset before others begin the current one.
 * -EINVAL also if mix_weights_reduce rejects the weights. */
enum { SAMPLER_MIX_TURNS_MIN = 64 };
struct sampler_source {
    struct order_params order;
    uint64_t weight;
};
int sampler_open_mix(const struct sampler_source *sources, uint32_t count, uint64_t lanes,
                     struct sampler **ret_sampler, struct err *err);
void sampler_close(struct sampler *sampler); /* NULL is fine */
/* Those of the mix; 1 for a single dataset. */
uint64_t sampler_lanes(const struct sampler *sampler);
/* Per epoch: the samples of all datasets. */
uint64_t sampler_samples(const struct sampler *sampler);
/* epoch and position are the mix's; the result's epoch and sample are its dataset's. Requires
 * position < sampler_samples. */
struct sample_ref sampler_at(struct sampler *sampler, uint32_t epoch, uint64_t position);
/* The same in two steps: the position in the dataset's own epoch, and the sample there. */
struct mix_location sampler_locate(const struct sampler *sampler, uint32_t epoch,
                                   uint64_t position);
struct sample_ref sampler_sample(struct sampler *sampler, struct mix_location location);
/* The inverse of sampler_locate. */
uint64_t sampler_position(const struct sampler *sampler, struct mix_location location,
                          uint32_t *ret_epoch);
/* order_neighbors_ahead of the location's dataset. */
uint64_t sampler_neighbors_ahead(struct sampler *sampler, struct mix_location location,
                                 uint32_t quarters);

/* Returns a single dataset's fingerprint, or XXH3-64 over {fingerprint u64, weight u64} of each
 * dataset, little-endian. Weights must be reduced. */
uint64_t sampler_mix_fingerprint(const uint64_t *fingerprints, const uint64_t *weights,
                                 uint32_t count);

#ifdef __cplusplus
}
#endif

#endif
