/*
 * quality — how well an order mixes what lies together on disk, beside a full shuffle.
 *
 * The line of N samples is cut into as many equal neighbourhoods as a batch has samples, and those
 * that a batch touches are counted. A full shuffle touches 63 % of them, since some are drawn
 * twice; the ratio to it is the quality: 1 is as good as a full shuffle, a sequential order is near
 * 0, and lanes that spread a batch more evenly than chance does are above 1. Class folders that
 * were stored one after another are such neighbourhoods: it is then how many classes a batch sees.
 * Computed from the order alone, over some batches of an epoch; nothing is read.
 */
#ifndef MILLRACE_SAMPLER_QUALITY_H
#define MILLRACE_SAMPLER_QUALITY_H

#include "base/err.h"
#include "sampler/order.h"

enum {
    QUALITY_POSITIONS = 1 << 17, /* looked up for one measure, about; some 40 ms */
    QUALITY_POSITIONS_GLANCE =
        1 << 13, /* for a word about it: within 2 % of the ratio, in some 3 ms */
    QUALITY_BATCHES_MAX = 1024,
    QUALITY_BATCH_MAX = 1 << 20, /* a larger batch is measured as one of so many samples */
};

struct quality {
    uint64_t batch; /* samples, of those measured */
    double touched; /* neighbourhoods that a batch touches, mean */
    double full;    /* what a full shuffle touches, expected */
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

/* batch: positions that follow each other and are one batch, at least 1; of `positions` or a little
 * more, a whole batch at least. params are resolved. -ENOMEM. */
int quality_measure(const struct order_params *params, uint64_t batch, uint64_t positions,
                    struct quality *ret_quality, struct err *err);

/* Of a mix: a batch is drawn from each order by its weight, and what the parts touch adds up.
 * ret_parts: count of them, or NULL. -ENOMEM. */
int quality_measure_mix(const struct order_params *const *orders, const uint64_t *weights,
                        uint32_t count, uint64_t batch, uint64_t positions,
                        struct quality *ret_parts, struct quality *ret_sum, struct err *err);

/* Shorter runs, more lanes or wider windows, step by step whichever gains most, until the ratio is
 * at least `enough` or nothing gains any more. Gives the parameters and their quality; those asked
 * about where they are good enough. -ENOMEM. */
int quality_improve(const struct order_params *params, uint64_t batch, double enough,
                    struct order_params *ret_params, struct quality *ret_quality, struct err *err);

#endif
