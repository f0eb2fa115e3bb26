/*
 * mix — see mix.h.
 */
#include "sampler/mix.h"

#include "sampler/gcd.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* positions over all epochs: 2^32 epochs of fewer than 2^48 positions */
typedef unsigned __int128 uint128;

enum { WEIGHT_DIGITS_MAX = 9, FRACTION_DIGITS_MAX = 6 };

struct mix_slot {
    uint32_t dataset, draw; /* d, k */
};

struct mix_dataset {
    uint64_t samples;
    uint32_t weight, first; /* first: index in draw_slots */
};

struct mix {
    uint64_t samples, lanes;
    uint32_t period, count;
    struct mix_dataset datasets[MIX_DATASETS_MAX];
    uint32_t *draw_slots;    /* [period]: slot of each draw, ascending, by dataset */
    struct mix_slot slots[]; /* [period] */
};

/* ---- Weights. ---- */

int mix_weight_parse(const char *text, uint64_t *ret_weight)
{
    size_t whole = strspn(text, "0123456789");
    const char *rest = text + whole;
    bool has_point = *rest == '.';
    size_t fraction = has_point ? strspn(rest + 1, "0123456789") : 0;
    if (whole == 0 || whole > WEIGHT_DIGITS_MAX || fraction > FRACTION_DIGITS_MAX ||
        (has_point && fraction == 0) || rest[has_point ? 1 + fraction : 0] != '\0')
        return -EINVAL;
    uint64_t weight = strtoull(text, NULL, 10), unit = MIX_WEIGHT_UNIT;
    weight *= unit;
    for (size_t i = 0; i < fraction; i++) {
        unit /= 10;
        weight += (uint64_t)(rest[1 + i] - '0') * unit;
    }
    if (weight == 0)
        return -EINVAL;
    *ret_weight = weight;
    return 0;
}

/* Suggests weights in about the same ratios with a sum within the limit: each is rounded down,
 * but at least 1. */
static int weights_too_fine_error(const uint64_t *weights, uint32_t count, uint128 sum,
                                  struct err *err)
{
    char nearest[ERR_TEXT_BYTES_MAX] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < count && used < sizeof nearest; i++) {
        uint64_t weight = (uint64_t)((uint128)weights[i] * (MIX_PERIOD_MAX - count) / sum);
        used += (size_t)snprintf(nearest + used, sizeof nearest - used, "%s%" PRIu64, i ? ", " : "",
                                 weight ? weight : 1);
    }
    err_set(err, -EINVAL, "the weights of a mix are too fine-grained");
    err_expected(err, "a sum of at most %d after division by the greatest common divisor",
                 MIX_PERIOD_MAX);
    if (sum >> 64)
        err_found(err, "more than 2^64");
    else
        err_found(err, "%" PRIu64, (uint64_t)sum);
    err_advise(err, "choose rounder weights; the nearest are %s", nearest);
    return -EINVAL;
}

int mix_weights_reduce(uint64_t *weights, uint32_t count, struct err *err)
{
    if (count < 1 || count > MIX_DATASETS_MAX) {
        err_set(err, -EINVAL, "a mix has too many datasets, or none");
        err_expected(err, "1 to %d", MIX_DATASETS_MAX);
        err_found(err, "%" PRIu32, count);
        return -EINVAL;
    }
    uint64_t divisor = 0;
    uint128 sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (weights[i] == 0) {
            err_set(err, -EINVAL, "the weight of dataset %" PRIu32 " of the mix is 0", i);
            err_advise(err, "leave the dataset out, or give it a weight");
            return -EINVAL;
        }
        divisor = greatest_common_divisor(divisor, weights[i]);
        sum += weights[i];
    }
    if (sum / divisor > MIX_PERIOD_MAX)
        return weights_too_fine_error(weights, count, sum, err);
    for (uint32_t i = 0; i < count; i++)
        weights[i] /= divisor;
    return 0;
}

/* ---- The table. ---- */

/* A draw, at fraction (2k + 1) / (2m) of the period. */
struct mix_event {
    uint64_t numerator, weight; /* 2k + 1 and m, below 2^17 */
    struct mix_slot slot;
};

static int compare_events(const void *left, const void *right)
{
    const struct mix_event *a = left, *b = right;
    uint64_t x = a->numerator * b->weight, y = b->numerator * a->weight;
    if (x != y)
        return x < y ? -1 : 1;
    return a->slot.dataset < b->slot.dataset ? -1 : a->slot.dataset > b->slot.dataset;
}

static int fill_table(struct mix *mix)
{
    struct mix_event *events = malloc(mix->period * sizeof *events);
    if (!events)
        return -ENOMEM;
    uint32_t count = 0;
    for (uint32_t d = 0; d < mix->count; d++)
        for (uint32_t k = 0; k < mix->datasets[d].weight; k++)
            events[count++] = (struct mix_event){.numerator = 2 * (uint64_t)k + 1,
                                                 .weight = mix->datasets[d].weight,
                                                 .slot = {d, k}};
    qsort(events, count, sizeof *events, compare_events);
    for (uint32_t i = 0; i < count; i++) {
        mix->slots[i] = events[i].slot;
        mix->draw_slots[mix->datasets[events[i].slot.dataset].first + events[i].slot.draw] = i;
    }
    free(events);
    return 0;
}

int mix_open(const struct mix_source *sources, uint32_t count, uint64_t lanes, struct mix **ret_mix,
             struct err *err)
{
    assert(lanes >= 1 && lanes < UINT64_C(1) << 48);
    uint64_t weights[MIX_DATASETS_MAX] = {0};
    for (uint32_t i = 0; i < count && i < MIX_DATASETS_MAX; i++)
        weights[i] = sources[i].weight;
    int status = mix_weights_reduce(weights, count, err);
    if (status)
        return status;
    uint64_t period = 0;
    for (uint32_t i = 0; i < count; i++)
        period += weights[i];
    struct mix *mix = calloc(1, sizeof *mix + period * sizeof mix->slots[0]);
    uint32_t *draw_slots = calloc(period, sizeof *draw_slots);
    if (!mix || !draw_slots) {
        free(mix);
        free(draw_slots);
        return err_set(err, -ENOMEM, "out of memory for a mix of %" PRIu32 " datasets", count);
    }
    mix->lanes = lanes;
    mix->period = (uint32_t)period;
    mix->count = count;
    mix->draw_slots = draw_slots;
    uint32_t first = 0;
    for (uint32_t i = 0; i < count; i++) {
        mix->datasets[i] = (struct mix_dataset){sources[i].samples, (uint32_t)weights[i], first};
        mix->samples += sources[i].samples;
        first += (uint32_t)weights[i];
    }
    status = fill_table(mix);
    if (status) {
        mix_close(mix);
        return err_set(err, status, "out of memory for a mix of %" PRIu32 " datasets", count);
    }
    *ret_mix = mix;
    return 0;
}

void mix_close(struct mix *mix)
{
    if (!mix)
        return;
    free(mix->draw_slots);
    free(mix);
}

/* ---- Lookups. ---- */

uint64_t mix_samples(const struct mix *mix)
{
    return mix->samples;
}

uint64_t mix_lanes(const struct mix *mix)
{
    return mix->lanes;
}

uint32_t mix_weight(const struct mix *mix, uint32_t dataset)
{
    assert(dataset < mix->count);
    return mix->datasets[dataset].weight;
}

/* The lane's first slot. */
static uint64_t first_slot(const struct mix *mix, uint64_t lane)
{
    return lane * mix->period / mix->lanes;
}

/* Returns how many draws of the dataset come before the slot in the table. */
static uint32_t draws_before(const struct mix *mix, const struct mix_dataset *dataset,
                             uint64_t slot)
{
    const uint32_t *slots = mix->draw_slots + dataset->first;
    uint32_t low = 0, high = dataset->weight;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (slots[middle] < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct mix_location mix_at(const struct mix *mix, uint32_t epoch, uint64_t position)
{
    assert(position < mix->samples);
    uint128 global_position = (uint128)epoch * mix->samples + position;
    uint64_t lane = (uint64_t)(global_position % mix->lanes), first = first_slot(mix, lane);
    uint128 walked = first + global_position / mix->lanes; /* slots from the table's begin */
    struct mix_slot slot = mix->slots[(uint32_t)(walked % mix->period)];
    const struct mix_dataset *dataset = &mix->datasets[slot.dataset];
    uint128 own_draw =
        walked / mix->period * dataset->weight + slot.draw - draws_before(mix, dataset, first);
    uint128 draw = own_draw * mix->lanes + lane;
    return (struct mix_location){.dataset = slot.dataset,
                                 .epoch = (uint32_t)(draw / dataset->samples),
                                 .position = (uint64_t)(draw % dataset->samples)};
}

uint64_t mix_position(const struct mix *mix, struct mix_location location, uint32_t *ret_epoch)
{
    assert(location.dataset < mix->count);
    const struct mix_dataset *dataset = &mix->datasets[location.dataset];
    assert(location.position < dataset->samples);
    uint128 draw = (uint128)location.epoch * dataset->samples + location.position;
    uint64_t lane = (uint64_t)(draw % mix->lanes), first = first_slot(mix, lane);
    uint128 table_draw = draw / mix->lanes + draws_before(mix, dataset, first);
    uint128 walked = table_draw / dataset->weight * mix->period +
                     mix->draw_slots[dataset->first + (uint32_t)(table_draw % dataset->weight)];
    uint128 global_position = (walked - first) * mix->lanes + lane;
    assert(global_position / mix->samples <= UINT32_MAX);
    *ret_epoch = (uint32_t)(global_position / mix->samples);
    return (uint64_t)(global_position % mix->samples);
}
