/*
 * quality — tests that a full shuffle has quality 1, a sequential order nearly 0, and that the
 * advised parameters reach the stated quality.
 */
#include "sampler/quality.h"

#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

static struct order_params make_params(enum order_kind kind, uint64_t samples, uint64_t lanes,
                                       uint64_t window, uint64_t run)
{
    struct order_params params = {
        .kind = kind, .samples = samples, .seed = 3, .lanes = lanes, .window = window, .run = run};
    order_params_resolve(&params, 30000, 64);
    return params;
}

static double measure(const struct order_params *params, uint64_t batch)
{
    struct quality quality;
    struct err err;
    assert_ok(quality_measure(params, batch, QUALITY_POSITIONS, &quality, &err), &err);
    return quality_ratio(&quality);
}

static void full_shuffles_have_a_quality_of_one(void **state)
{
    (void)state;
    static const uint64_t samples[] = {100, 1000, 3068, 100000, 1280000, UINT64_C(1) << 40};
    static const uint64_t batches[] = {10, 64, 256, 1024};
    for (size_t n = 0; n < sizeof samples / sizeof samples[0]; n++) {
        for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++) {
            struct order_params params = make_params(ORDER_FULL, samples[n], 0, 0, 0);
            double ratio = measure(&params, batches[b]);
            if (ratio < 0.97 || ratio > 1.03)
                fail_msg("%llu samples, batch %llu: %g", (unsigned long long)samples[n],
                         (unsigned long long)batches[b], ratio);
        }
    }
}

/* The case measured in docs/reference/order.md: 601 of 642 classes. */
static void class_folders_in_the_default_order_are_nearly_a_full_shuffle(void **state)
{
    (void)state;
    struct order_params params = make_params(ORDER_SHUFFLE, 1280000, 64, 4096, 64);
    double ratio = measure(&params, 1024);
    printf("quality %.3f\n", ratio);
    assert_true(ratio > 0.91 && ratio < 0.97);
}

static void a_quick_estimate_is_close(void **state)
{
    (void)state;
    static const uint64_t lanes[] = {4, 64}, batches[] = {64, 256, 1024};
    for (size_t l = 0; l < 2; l++) {
        for (size_t b = 0; b < 3; b++) {
            struct order_params params = make_params(ORDER_SHUFFLE, 1280000, lanes[l], 1024, 16);
            struct quality glance;
            struct err err;
            assert_ok(quality_measure(&params, batches[b], QUALITY_POSITIONS_QUICK, &glance, &err),
                      &err);
            assert_float_equal(quality_ratio(&glance), measure(&params, batches[b]), 0.02);
        }
    }
}

static void worse_orders_have_lower_quality(void **state)
{
    (void)state;
    struct order_params sequential = make_params(ORDER_SEQUENTIAL, 1000000, 0, 0, 0);
    struct order_params poor = make_params(ORDER_SHUFFLE, 1000000, 8, 16, 64);
    struct order_params good = make_params(ORDER_SHUFFLE, 1000000, 64, 4096, 8);
    assert_true(measure(&sequential, 1000) < 0.01);
    assert_true(measure(&poor, 1000) < 0.3);
    assert_true(measure(&good, 1000) > 0.95);
}

static void small_and_odd_sizes_can_be_measured(void **state)
{
    (void)state;
    for (uint64_t samples = 1; samples < 40; samples++) {
        for (uint64_t batch = 1; batch < 45; batch += 3) {
            struct order_params params = make_params(ORDER_SHUFFLE, samples, 0, 0, 0);
            double ratio = measure(&params, batch);
            assert_true(ratio > 0 && ratio < 1.5);
            assert_true(batch < samples || fabs(ratio - 1) < 1e-12);
        }
    }
    struct order_params params = make_params(ORDER_FULL, 3 << 20, 0, 0, 0);
    assert_true(fabs(measure(&params, UINT64_C(1) << 30) - 1) < 0.01);
}

static void advised_parameters_have_the_stated_quality(void **state)
{
    (void)state;
    struct order_params poor = make_params(ORDER_SHUFFLE, 3068, 64, 11, 36), better;
    struct quality quality;
    struct err err;
    assert_ok(quality_improve(&poor, 256, 0.95, &better, &quality, &err), &err);
    printf("lanes %d, window %d, run %d: %.3f, was %.3f\n", (int)better.lanes, (int)better.window,
           (int)better.run, quality_ratio(&quality), measure(&poor, 256));
    assert_true(measure(&poor, 256) < 0.9);
    assert_true(quality_ratio(&quality) >= 0.95 &&
                measure(&better, 256) == quality_ratio(&quality));
    assert_true(better.samples == poor.samples && better.seed == poor.seed);
    struct order_params full = make_params(ORDER_FULL, 3068, 0, 0, 0);
    assert_ok(quality_improve(&full, 256, 2, &better, &quality, &err), &err);
    assert_memory_equal(&full, &better, sizeof full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_shuffles_have_a_quality_of_one),
        cmocka_unit_test(class_folders_in_the_default_order_are_nearly_a_full_shuffle),
        cmocka_unit_test(a_quick_estimate_is_close),
        cmocka_unit_test(worse_orders_have_lower_quality),
        cmocka_unit_test(small_and_odd_sizes_can_be_measured),
        cmocka_unit_test(advised_parameters_have_the_stated_quality),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
