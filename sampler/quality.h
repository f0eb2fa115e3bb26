/*
 * quality — measures how well an order mixes neighbors on disk, relative to a full shuffle.
 *
 * The N samples are cut into as many equal neighborhoods as a batch has samples. A fully shuffled
 * batch touches 63 % of them, because it draws several samples from some. The quality is the number
 * of touched neighborhoods relative to that: near 0 for a sequential order, 1 for a full shuffle,
 * and above 1 if lanes spread a batch more evenly than chance. If class folders are stored one
 * after another, it reflects how many classes a batch contains. It is computed from the order, for
 * some of an epoch's batches.
 */
#ifndef MILLRACE_SAMPLER_QUALITY_H
#define MILLRACE_SAMPLER_QUALITY_H

#include "base/err.h"
#include "sampler/order.h"

enum {
    /* approximate lookups per measurement; about 40 ms */
    QUALITY_POSITIONS = 1 << 17,
    /* accurate to within 2 %; about 3 ms */
    QUALITY_POSITIONS_QUICK = 1 << 13,
    QUALITY_BATCHES_MAX = 1024,
    QUALITY_CONSECUTIVE = 16,    /* batches that `millrace read --quality` also measures as one */
    QUALITY_BATCH_MAX = 1 << 20, /* a larger batch is measured as if it had this size */
};

struct quality {
    uint64_t batch_samples;    /* as measured */
    double touched_count;      /* mean number of touched neighborhoods */
    double full_shuffle_count; /* expected number for a full shuffle */
};

static inline double quality_ratio(const struct quality *quality)
{
    return quality->touched_count / quality->full_shuffle_count;
}

static inline void quality_add(struct quality *sum, const struct quality *part)
{
    sum->batch_samples += part->batch_samples;
    sum->touched_count += part->touched_count;
    sum->full_shuffle_count += part->full_shuffle_count;
}

/* batch: consecutive positions per batch, at least 1. positions: number of lookups, at least one
 * batch; rounded up. params must be resolved. -ENOMEM. */
int quality_measure(const struct order_params *params, uint64_t batch, uint64_t positions,
                    struct quality *ret_quality, struct err *err);

/* Measures a mix: divides the batch among the orders by weight and adds up the touched
 * neighborhoods. ret_parts: [count], or NULL. -ENOMEM. */
int quality_measure_mix(const struct order_params *const *orders, const uint64_t *weights,
                        uint32_t count, uint64_t batch, uint64_t positions,
                        struct quality *ret_parts, struct quality *ret_sum, struct err *err);

/* Tries shorter runs, more lanes and wider windows, taking the step with the largest gain, until
 * the ratio reaches `ratio_min` or no step improves it. -ENOMEM. */
int quality_improve(const struct order_params *params, uint64_t batch, double ratio_min,
                    struct order_params *ret_params, struct quality *ret_quality, struct err *err);

#endif
