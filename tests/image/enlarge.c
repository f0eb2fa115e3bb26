/*
 * enlarge — compares rows of all supported kernels with a plain sum of the plan's taps, for one to
 * three channels, mirrored or not, and checks copies past the cache.
 */
#include "image/kernels/enlarge.h"

#include "base/philox.h"
#include "image/kernels/stream_copy.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

enum { ONE = 1 << RESAMPLE_FRACTION_BITS, SOURCE_MAX = 300, COUNT_MAX = 300 };

static uint32_t draw(uint64_t round, uint64_t i, uint32_t below)
{
    return (uint32_t)((uint64_t)philox(7, round, i).word[0] * below >> 32);
}

static int32_t sum_taps(const struct resample_plan *plan, uint32_t output, const uint8_t *row,
                        uint32_t channels, uint32_t channel)
{
    int32_t sum = ONE / 2;
    for (uint32_t t = 0; t < plan->taps[output]; t++)
        sum += plan->coefficients[(size_t)output * plan->taps_max + t] *
               row[(plan->first[output] - plan->source_first + t) * channels + channel];
    return sum >> RESAMPLE_FRACTION_BITS;
}

/* Returns whether the plan fits. */
static bool check_row(struct enlarge_plan *enlarge, enum image_kernels kernels,
                      const struct resample_plan *plan, uint32_t channels, uint64_t round)
{
    struct err err;
    uint32_t samples = (plan->source_end - plan->source_first) * channels;
    uint8_t target[ENLARGE_CHANNELS_MAX * COUNT_MAX + 1];
    assert_ok(enlarge_plan_init(enlarge, kernels, plan, channels, &err), &err);
    if (!enlarge->fits)
        return false;
    /* exactly as long as allowed, so that a sanitizer detects overreads */
    uint8_t *row = malloc(samples + ENLARGE_SLACK_BYTES);
    assert_non_null(row);
    for (uint32_t i = 0; i < samples + ENLARGE_SLACK_BYTES; i++)
        row[i] = round % 4 ? (uint8_t)draw(round, 1000 + i, 256) : i % 2 ? 255 : 0;
    memset(target, 0x5a, sizeof target);
    enlarge_row(enlarge, row, target);
    for (uint32_t i = 0; i < plan->count * channels; i++)
        assert_int_equal(target[i], sum_taps(plan, i / channels, row, channels, i % channels));
    assert_int_equal(target[plan->count * channels], 0x5a);
    free(row);
    return true;
}

static void rows_match_a_naive_sum(void **state)
{
    enum { ROUNDS = 4000 };
    struct err err;
    struct resample_plan plan = {0};
    struct enlarge_plan enlarge = {0};
    uint32_t fit[IMAGE_KERNELS_COUNT] = {0}, wide = 0;
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint32_t source_count = 1 + draw(round, 0, SOURCE_MAX), den = 1 + draw(round, 1, 2);
        uint32_t count = 1 + draw(round, 2, COUNT_MAX), channels = 1 + draw(round, 3, 3);
        uint32_t longest = source_count < count ? source_count : count;
        uint32_t length = 1 + draw(round, 4, longest * den);
        struct resample_span span = {draw(round, 5, source_count * den - length + 1), length, den};
        if (round % 10 == 0) /* unchanged size */
            span = (struct resample_span){0, longest, 1}, count = longest;
        assert_ok(resample_plan_init(&plan, span, source_count, count, round % 2, &err), &err);
        assert_int_equal(plan.taps_max, 2);
        wide += count * channels >= 64;
        for (enum image_kernels kernels = 0; kernels < IMAGE_KERNELS_COUNT; kernels++)
            if (image_kernels_supported(kernels))
                fit[kernels] += check_row(&enlarge, kernels, &plan, channels, round);
    }
    assert_true(wide > ROUNDS / 2);
    assert_int_equal(fit[IMAGE_KERNELS_PLAIN], ROUNDS);
    assert_true(fit[image_kernels_best()] > ROUNDS * 9 / 10);
    enlarge_plan_deinit(&enlarge);
    resample_plan_deinit(&plan);
}

static void reductions_do_not_fit(void **state)
{
    struct err err;
    struct resample_plan plan = {0};
    struct enlarge_plan enlarge = {0};
    (void)state;
    for (uint32_t length = 90; length <= 120; length++) {
        struct resample_span span = {0, length, 1};
        assert_ok(resample_plan_init(&plan, span, 200, 100, false, &err), &err);
        assert_ok(enlarge_plan_init(&enlarge, image_kernels_best(), &plan, 3, &err), &err);
        assert_int_equal(enlarge.fits, length <= 100);
    }
    enlarge_plan_deinit(&enlarge);
    resample_plan_deinit(&plan);
}

static void copies_past_the_cache_keep_within_their_bounds(void **state)
{
    enum { BYTES_MAX = 300, SHIFTS = 65 };
    _Alignas(64) uint8_t target[BYTES_MAX + SHIFTS + 1];
    uint8_t source[BYTES_MAX + SHIFTS];
    (void)state;
    for (uint32_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)draw(1, i, 256);
    for (size_t shift = 0; shift < SHIFTS; shift++) {
        for (size_t bytes = 0; bytes <= BYTES_MAX; bytes += 1 + shift % 3) {
            memset(target, 0x5a, sizeof target);
            stream_copy(image_kernels_best(), target + shift, source + shift / 3, bytes);
            assert_memory_equal(target + shift, source + shift / 3, bytes);
            for (size_t i = 0; i < shift; i++)
                assert_int_equal(target[i], 0x5a);
            for (size_t i = shift + bytes; i < sizeof target; i++)
                assert_int_equal(target[i], 0x5a);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_match_a_naive_sum),
        cmocka_unit_test(reductions_do_not_fit),
        cmocka_unit_test(copies_past_the_cache_keep_within_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
