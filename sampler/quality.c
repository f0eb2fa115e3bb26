/*
 * quality — see quality.h.
 */
#include "sampler/quality.h"

#include "base/bytes.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { IMPROVE_ROUNDS_MAX = 16, IMPROVE_LANES_MAX = 1024 };
/* gain in the ratio; smaller gains are measurement noise */
#define IMPROVE_GAIN_MIN 0.002

/* Returns the probability that a batch drawn without replacement touches a neighborhood of s
 * samples; it misses with C(N - s, B) / C(N, B). */
static double touch_probability(uint64_t samples, uint64_t batch, uint64_t size)
{
    uint64_t factors = bytes_min(size, batch), other = size > batch ? size : batch;
    /* Logarithm of the product of 1 - other / (N - i); few factors, because size * batch is
     * about N. */
    double missed = 0;
    for (uint64_t i = 0; i < factors; i++) {
        if (other >= samples - i)
            return 1;
        missed += log1p(-(double)other / (double)(samples - i));
    }
    return -expm1(missed);
}

/* Divides the samples into as many neighborhoods as a batch has samples; the remainder makes
 * some larger by one. */
static double full_shuffle_touched(uint64_t samples, uint64_t batch)
{
    uint64_t size = samples / batch, larger = samples % batch;
    return (double)larger * touch_probability(samples, batch, size + 1) +
           (double)(batch - larger) * touch_probability(samples, batch, size);
}

/* Counts the neighborhoods that the batch at `first` touches. */
static uint64_t count_touched(const struct order *order, struct order_cache *cache, uint64_t first,
                              uint64_t batch, uint8_t *seen)
{
    uint64_t samples = order->params.samples, touched = 0;
    memset(seen, 0, batch);
    for (uint64_t p = first; p < first + batch; p++) {
        uint64_t sample = order_sample(order, cache, p);
        uint8_t *mark = &seen[(uint64_t)((unsigned __int128)sample * batch / samples)];
        touched += !*mark;
        *mark = 1;
    }
    return touched;
}

int quality_measure(const struct order_params *params, uint64_t batch, uint64_t positions,
                    struct quality *ret_quality, struct err *err)
{
    assert(batch >= 1);
    batch = bytes_min(bytes_min(batch, QUALITY_BATCH_MAX), params->samples);
    uint64_t steps = params->samples / batch, touched = 0;
    uint64_t count = bytes_min(bytes_min(QUALITY_BATCHES_MAX, positions / batch + 1), steps);
    struct order_cache *cache = order_cache_open(params);
    uint8_t *seen = malloc(batch);
    int status = cache && seen ? 0 : err_set(err, -ENOMEM, "out of memory for measuring an order");
    if (!status) {
        struct order order;
        order_init(&order, params, 0);
        for (uint64_t i = 0; i < count; i++)
            touched += count_touched(&order, cache, i * (steps / count) * batch, batch, seen);
        *ret_quality =
            (struct quality){.batch_samples = batch,
                             .touched_count = (double)touched / (double)count,
                             .full_shuffle_count = full_shuffle_touched(params->samples, batch)};
    }
    free(seen);
    order_cache_close(cache);
    return status;
}

int quality_measure_mix(const struct order_params *const *orders, const uint64_t *weights,
                        uint32_t count, uint64_t batch, uint64_t positions,
                        struct quality *ret_parts, struct quality *ret_sum, struct err *err)
{
    uint64_t weights_sum = 0;
    struct quality sum = {0}, part;
    for (uint32_t i = 0; i < count; i++)
        weights_sum += weights[i];
    for (uint32_t i = 0; i < count; i++) {
        uint64_t share = batch * weights[i] / weights_sum; /* at most 2^34 * 2^16 */
        int status = quality_measure(orders[i], share ? share : 1, positions, &part, err);
        if (status)
            return status;
        quality_add(&sum, &part);
        if (ret_parts)
            ret_parts[i] = part;
    }
    *ret_sum = sum;
    return 0;
}

/* Applies the n-th kind of change. False: impossible. */
static bool apply_change(struct order_params *params, int n)
{
    switch (n) {
    case 0:
        params->run /= 2;
        return params->run >= 1;
    case 1:
        params->lanes *= 2;
        return params->lanes <= bytes_min(params->samples, IMPROVE_LANES_MAX);
    default:
        params->window *= 2;
        return params->window <= params->samples / params->lanes;
    }
}

int quality_improve(const struct order_params *params, uint64_t batch, double ratio_min,
                    struct order_params *ret_params, struct quality *ret_quality, struct err *err)
{
    struct order_params best = *params;
    struct quality quality;
    int status = quality_measure(&best, batch, QUALITY_POSITIONS, &quality, err);
    for (int round = 0;
         !status && round < IMPROVE_ROUNDS_MAX && quality_ratio(&quality) < ratio_min; round++) {
        struct order_params from = best;
        double ratio_needed = quality_ratio(&quality) + IMPROVE_GAIN_MIN;
        bool gained = false;
        for (int n = 0; !status && n < 3; n++) {
            struct order_params other = from;
            struct quality found;
            if (from.kind != ORDER_SHUFFLE || !apply_change(&other, n))
                continue;
            status = quality_measure(&other, batch, QUALITY_POSITIONS, &found, err);
            if (status || quality_ratio(&found) < ratio_needed)
                continue;
            ratio_needed = quality_ratio(&found);
            best = other;
            quality = found;
            gained = true;
        }
        if (!gained)
            break;
    }
    if (status)
        return status;
    *ret_params = best;
    *ret_quality = quality;
    return 0;
}
