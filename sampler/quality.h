/*
 * quality — how well an order mixes neighbors on disk, relative to a full shuffle.
 *
 * The N samples are cut into as many equal neighborhoods as a batch has samples; those that a batch
 * touches are counted. A full shuffle touches 63 % of them, because some are drawn twice. The
 * quality is the ratio to a full shuffle: near 0 for a sequential order, 1 for a full shuffle, and
 * above 1 if lanes spread a batch more evenly than chance. Class folders stored one after another
 * are such neighborhoods; the quality then reflects how many classes a batch sees. Computed from
 * the order alone, over some batches of an epoch; nothing is read.
 */
#ifndef MILLRACE_SAMPLER_QUALITY_H
#define MILLRACE_SAMPLER_QUALITY_H

#include "base/err.h"
#include "sampler/order.h"

enum {
    /* approximate number of lookups for one measurement; about 40 ms */
    QUALITY_POSITIONS = 1 << 17,
    /* For a quick estimate: within 2 % of the ratio, in about 3 ms. */
    QUALITY_POSITIONS_QUICK = 1 << 13,
    QUALITY_BATCHES_MAX = 1024,
    QUALITY_BATCH_MAX = 1 << 20, /* a larger batch is measured as this many samples */
};

struct quality {
    uint64_t batch; /* samples, as measured */
    double touched; /* neighborhoods that a batch touches, mean */
    double full;    /* expected for a full shuffle */
};

static inline double quality_ratio(const struct quality *quality)
{
    return quality->touched / quality->full;
}

static inline void quality_add(struct quality *sum, const struct quality *part)
{
    sum->batch += part->batch;
    sum->touched += part->touched;
    sum->full += part->full;
}

/* batch: consecutive positions that form one batch, at least 1. positions: the number to look up,
 * at least one whole batch, and rounded up a little. params must be resolved. -ENOMEM. */
int quality_measure(const struct order_params *params, uint64_t batch, uint64_t positions,
                    struct quality *ret_quality, struct err *err);

/* Measures a mix: draws part of a batch from each order by its weight and adds up what the parts
 * touch. ret_parts: [count], or NULL. -ENOMEM. */
int quality_measure_mix(const struct order_params *const *orders, const uint64_t *weights,
                        uint32_t count, uint64_t batch, uint64_t positions,
                        struct quality *ret_parts, struct quality *ret_sum, struct err *err);

/* Tries shorter runs, more lanes and wider windows, taking the step that gains most, until the
 * ratio is at least `enough` or nothing gains any more. Returns the parameters and their quality;
 * params itself if it is good enough. -ENOMEM. */
int quality_improve(const struct order_params *params, uint64_t batch, double enough,
                    struct order_params *ret_params, struct quality *ret_quality, struct err *err);

#endif
