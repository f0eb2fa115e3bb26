/*
 * mix — maps a position to a dataset and a draw from it, in integer arithmetic.
 *
 * Dataset d has integer weight m_d; P is the sum of all weights. In each period of P positions,
 * dataset d has m_d draws, spread as evenly as possible: the events (2k + 1) * P / (2 * m_d), k
 * = 0..m_d - 1, of all datasets are sorted (ties: lower dataset first) into a table T[P] -> (d,
 * k).
 *
 * The positions of all epochs are dealt out to L lanes in turns: position g is turn g div L of lane
 * l = g mod L. Each lane walks through the table by itself, from slot s = floor(l * P / L) on: in
 * turn t it draws from the dataset of T[(s + t) mod P]. The lane's draw number o from dataset d, o
 * = 0, 1, ..., is draw i = o * L + l of that dataset. So, as long as d has at least L samples and L
 * lanes of its own (order.h), a lane of the mix follows the same lane of d for a whole epoch of d.
 * Draw i of a dataset of N_d samples is position i mod N_d of that dataset's epoch i / N_d.
 *
 * Only the ratios of weights matter: they are divided by their greatest common divisor. They are
 * exact over any P turns.
 *
 * An epoch of the mix has as many positions as all datasets together have samples. Each dataset
 * advances through its own epochs at its own pace. A mix of one dataset equals that dataset.
 */
#ifndef MILLRACE_SAMPLER_MIX_H
#define MILLRACE_SAMPLER_MIX_H

#include "base/err.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MIX_DATASETS_MAX = 128,
    MIX_PERIOD_MAX = 1 << 16,
    MIX_WEIGHT_UNIT = 1000000, /* value of mix_weight_parse("1") */
};

struct mix_source {
    uint64_t samples; /* N_d >= 1 */
    uint64_t weight;  /* m_d >= 1; need not be reduced */
};

/* Immutable once open, so any thread may use it. Takes 12 bytes per position of the period. */
struct mix;

/* lanes: L, 1 to 2^48 - 1. Borrows nothing. The sources must have fewer than 2^48 samples in total.
 * -ENOMEM, or -EINVAL from mix_weights_reduce. */
int mix_open(const struct mix_source *sources, uint32_t count, uint64_t lanes, struct mix **ret_mix,
             struct err *err);
void mix_close(struct mix *mix); /* NULL is fine */

uint64_t mix_samples(const struct mix *mix); /* per epoch */
uint64_t mix_lanes(const struct mix *mix);
uint32_t mix_weight(const struct mix *mix, uint32_t dataset);

/* A position in a dataset's own epoch, which is counted modulo 2^32. */
struct mix_location {
    uint32_t dataset;
    uint32_t epoch;
    uint64_t position;
};

/* Requires position < mix_samples. */
struct mix_location mix_at(const struct mix *mix, uint32_t epoch, uint64_t position);
/* The inverse of mix_at. The location must lie in one of the mix's 2^32 epochs. */
uint64_t mix_position(const struct mix *mix, struct mix_location location, uint32_t *ret_epoch);

/* Divides the weights by their greatest common divisor. -EINVAL: no weights, too many, a zero,
 * or a reduced sum above MIX_PERIOD_MAX; the advice then gives the nearest weights that fit. */
int mix_weights_reduce(uint64_t *weights, uint32_t count, struct err *err);
/* Parses "3" or "0.25", with up to nine digits before the point and six after it, in units of 1
 * / MIX_WEIGHT_UNIT. -EINVAL: invalid number or 0. */
int mix_weight_parse(const char *text, uint64_t *ret_weight);

#ifdef __cplusplus
}
#endif

#endif
