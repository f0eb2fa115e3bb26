/*
 * resample_plan — computes coefficients in exact integers (resample.h).
 *
 * With h = count * den, source sample x has its center at (2x+1)*h and output i at 2*count*begin
 * + (2i+1)*length, both in units of 1/(2h) of a sample. The triangle's half width is the larger
 * of one sample, 2h, and one output, 2*length.
 */
#include "image/kernels/resample.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct triangle {
    int64_t h, half_width; /* h: half a sample; half_width: of the filter */
    int64_t begin, step;   /* output i has its center at begin + (2i+1)*step */
};

static int64_t floor_divide(int64_t value, int64_t by)
{
    return value / by - (value % by < 0);
}

static int64_t weight(const struct triangle *triangle, int64_t center, int64_t sample)
{
    return triangle->half_width - llabs((2 * sample + 1) * triangle->h - center);
}

static struct triangle make_triangle(struct resample_span span, uint32_t count)
{
    struct triangle triangle = {
        .h = count * span.den, .begin = 2 * count * span.begin_num, .step = span.length_num};
    int64_t sample = 2 * triangle.h, output = 2 * span.length_num;
    triangle.half_width = sample > output ? sample : output;
    return triangle;
}

static int64_t output_center(const struct triangle *triangle, uint32_t output)
{
    return triangle->begin + (2 * (int64_t)output + 1) * triangle->step;
}

/* The samples with positive weight, [low, high), without the limits of the line. The remainders
 * serve to find the next output's without a division. */
struct support {
    int64_t low, high;
    int64_t low_remainder, high_remainder; /* of a sample; from 0 */
};

/* floor_divide, with the remainder. */
static int64_t split(int64_t value, int64_t by, int64_t *ret_remainder)
{
    int64_t whole = floor_divide(value, by);
    *ret_remainder = value - whole * by;
    return whole;
}

static struct support find_support(const struct triangle *triangle, int64_t center)
{
    int64_t sample = 2 * triangle->h;
    struct support support;
    support.low =
        split(center - triangle->half_width - triangle->h, sample, &support.low_remainder) + 1;
    /* high: the first sample beyond; rounds up */
    support.high = split(center + triangle->half_width - triangle->h + sample - 1, sample,
                         &support.high_remainder);
    return support;
}

/* Adds whole samples and a remainder, in units of the triangle. */
static void advance(int64_t *bound, int64_t *remainder, int64_t whole, int64_t rest, int64_t sample)
{
    int64_t sum = *remainder + rest, carry = sum >= sample;
    *bound += whole + carry;
    *remainder = sum - carry * sample;
}

static void clamp_support(struct support support, uint32_t source_count, int64_t *ret_low,
                          int64_t *ret_high)
{
    *ret_low = support.low < 0 ? 0 : support.low;
    *ret_high = support.high > source_count ? source_count : support.high;
}

static void plan_support(struct resample_plan *plan, struct support support, uint32_t output)
{
    int64_t low, high;
    clamp_support(support, plan->source_count, &low, &high);
    assert(low < high && high - low <= plan->taps_max);
    plan->first[output] = (uint32_t)low;
    plan->taps[output] = (uint32_t)(high - low);
    plan->source_first = plan->source_first < low ? plan->source_first : (uint32_t)low;
    plan->source_end = plan->source_end > high ? plan->source_end : (uint32_t)high;
}

static void plan_coefficients(struct resample_plan *plan, const struct triangle *triangle,
                              uint32_t output, int64_t center)
{
    int16_t *coefficients = plan->coefficients + (size_t)output * plan->taps_max;
    int64_t first = plan->first[output], taps = plan->taps[output];
    uint64_t total = 0, running = 0, before = 0;
    for (int64_t i = 0; i < taps; i++)
        total += (uint64_t)weight(triangle, center, first + i);
    for (int64_t i = 0; i + 1 < taps; i++) {
        running += (uint64_t)weight(triangle, center, first + i);
        uint64_t rounded = ((running << (RESAMPLE_FRACTION_BITS + 1)) + total) / (2 * total);
        coefficients[i] = (int16_t)(rounded - before);
        before = rounded;
    }
    coefficients[taps - 1] = (int16_t)((1 << RESAMPLE_FRACTION_BITS) - before);
    memset(coefficients + taps, 0, (plan->taps_max - (size_t)taps) * sizeof *coefficients);
}

static int plan_reserve(struct resample_plan *plan, size_t count, size_t taps_max, struct err *err)
{
    plan->count = 0; /* until it is recomputed */
    if (count > plan->outputs_capacity) {
        free(plan->first);
        free(plan->taps);
        plan->first = malloc(count * sizeof *plan->first);
        plan->taps = malloc(count * sizeof *plan->taps);
        plan->outputs_capacity = plan->first && plan->taps ? count : 0;
    }
    if (count * taps_max > plan->coefficients_capacity) {
        free(plan->coefficients);
        plan->coefficients = malloc(count * taps_max * sizeof *plan->coefficients);
        plan->coefficients_capacity = plan->coefficients ? count * taps_max : 0;
    }
    if (plan->outputs_capacity < count || plan->coefficients_capacity < count * taps_max)
        return err_set(err, -ENOMEM, "out of memory for %zu outputs of %zu taps each", count,
                       taps_max);
    return 0;
}

static bool matches_inputs(const struct resample_plan *plan, struct resample_span span,
                           uint32_t source_count, uint32_t count, bool flip)
{
    return plan->count == count && plan->source_count == source_count && plan->flip == flip &&
           plan->span.begin_num == span.begin_num && plan->span.length_num == span.length_num &&
           plan->span.den == span.den;
}

int resample_plan_init(struct resample_plan *plan, struct resample_span span, uint32_t source_count,
                       uint32_t count, bool flip, struct err *err)
{
    assert(count >= 1 && count <= RESAMPLE_LINE_MAX && source_count >= 1 &&
           source_count <= RESAMPLE_LINE_MAX);
    assert(span.den >= 1 && span.den <= RESAMPLE_DEN_MAX && span.begin_num >= 0 &&
           span.length_num >= 1);
    assert(span.begin_num + span.length_num <= source_count * span.den);
    if (matches_inputs(plan, span, source_count, count, flip))
        return 0;
    struct triangle triangle = make_triangle(span, count);
    int64_t sample = 2 * triangle.h;
    int64_t taps_max = (2 * triangle.half_width + sample - 1) / sample;
    taps_max = taps_max < source_count ? taps_max : source_count;
    taps_max += taps_max % 2;
    int status = plan_reserve(plan, count, (size_t)taps_max, err);
    if (status)
        return status;
    plan->taps_max = (uint32_t)taps_max;
    plan->source_count = source_count;
    plan->source_first = source_count;
    plan->source_end = 0;
    int64_t rest, whole = split(2 * triangle.step, sample, &rest);
    struct support support = find_support(&triangle, output_center(&triangle, 0));
    for (uint32_t seen = 0; seen < count; seen++) {
        uint32_t i = flip ? count - 1 - seen : seen;
        plan_support(plan, support, i);
        plan_coefficients(plan, &triangle, i, output_center(&triangle, seen));
        advance(&support.low, &support.low_remainder, whole, rest, sample);
        advance(&support.high, &support.high_remainder, whole, rest, sample);
    }
    plan->count = count;
    plan->span = span;
    plan->flip = flip;
    return 0;
}

void resample_find_source(struct resample_span span, uint32_t source_count, uint32_t count,
                          uint32_t *ret_source_first, uint32_t *ret_source_end)
{
    struct triangle triangle = make_triangle(span, count);
    int64_t first, end, unused;
    clamp_support(find_support(&triangle, output_center(&triangle, 0)), source_count, &first,
                  &unused);
    clamp_support(find_support(&triangle, output_center(&triangle, count - 1)), source_count,
                  &unused, &end);
    *ret_source_first = (uint32_t)first;
    *ret_source_end = (uint32_t)end;
}

void resample_plan_deinit(struct resample_plan *plan)
{
    free(plan->first);
    free(plan->taps);
    free(plan->coefficients);
    *plan = (struct resample_plan){0};
}
