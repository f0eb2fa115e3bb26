/*
 * scaler (test) — how overflows change the loss scale.
 */
#include "trainer/ops/scaler.h"
#include "tests/support/test.h"

static void without_scaling_an_overflow_is_an_error(void **state)
{
    (void)state;
    struct scaler s = scaler_begin(false, 100);
    assert_true(s.scale == 1 && scaler_factor(&s) == 1);
    for (int step = 0; step < 3 * SCALER_WINDOW_STEPS; step++)
        assert_true(scaler_update(&s, true));
    assert_true(s.scale == 1);
    assert_false(scaler_update(&s, false));
}

static void the_scale_halves_at_an_overflow_and_doubles_after_clean_steps(void **state)
{
    (void)state;
    struct scaler s = scaler_begin(true, 100);
    assert_true(s.scale == SCALER_INITIAL);
    assert_true(scaler_factor(&s) == SCALER_INITIAL / 128.0); /* of a sum over 100 rows */
    assert_true(scaler_update(&s, false));
    assert_true(s.scale == SCALER_INITIAL / 2);
    for (int step = 1; step < SCALER_WINDOW_STEPS; step++)
        assert_true(scaler_update(&s, true));
    assert_true(scaler_update(&s, false)); /* one step short of doubling: the count restarts */
    assert_true(s.scale == SCALER_INITIAL / 4);
    for (int step = 0; step < SCALER_WINDOW_STEPS; step++)
        assert_true(scaler_update(&s, true));
    assert_true(s.scale == SCALER_INITIAL / 2);
}

static void the_scale_has_a_minimum_and_a_maximum(void **state)
{
    (void)state;
    struct scaler s = scaler_begin(true, 100);
    while (s.scale > SCALER_MIN)
        assert_true(scaler_update(&s, false));
    assert_false(scaler_update(&s, false));
    for (int step = 0; step < 40 * SCALER_WINDOW_STEPS; step++)
        assert_true(scaler_update(&s, true));
    assert_true(s.scale == SCALER_MAX);
}

static void with_hysteresis_early_overflows_only_skip_their_steps(void **state)
{
    (void)state;
    const struct scaler_options options = {.initial = 64, .min = 16, .window = 5, .hysteresis = 3};
    struct scaler s = scaler_begin_with(&options, 1);
    for (int overflow = 0; overflow < 2; overflow++) {
        assert_true(scaler_update(&s, false));
        for (int step = 1; step < 5; step++) /* one step short of doubling */
            assert_true(scaler_update(&s, true));
        assert_true(s.scale == 64);
    }
    assert_true(scaler_update(&s, false));
    assert_true(s.scale == 32);
    for (int step = 0; step < 5; step++)
        assert_true(scaler_update(&s, true));
    assert_true(s.scale == 64);
    for (int overflow = 0; overflow < 4; overflow++)
        assert_true(scaler_update(&s, false));
    assert_true(s.scale == 16);
    assert_false(scaler_update(&s, false)); /* the scale is already at its minimum */
}

static void scales_are_powers_of_two_within_limits(void **state)
{
    (void)state;
    const double valid[] = {SCALER_MIN, 2, SCALER_INITIAL, SCALER_MAX},
                 wrong[] = {0, -2, 0.5, 3, 2.0 * SCALER_MAX};
    struct scaler s = scaler_begin(true, 1);
    for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++) {
        s.scale = valid[i];
        assert_true(scaler_is_valid(&s));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        s.scale = wrong[i];
        assert_false(scaler_is_valid(&s));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_scaling_an_overflow_is_an_error),
        cmocka_unit_test(the_scale_halves_at_an_overflow_and_doubles_after_clean_steps),
        cmocka_unit_test(with_hysteresis_early_overflows_only_skip_their_steps),
        cmocka_unit_test(scales_are_powers_of_two_within_limits),
        cmocka_unit_test(the_scale_has_a_minimum_and_a_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
