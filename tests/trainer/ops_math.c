/*
 * ops_math — tests the kernels' own exp and log against libm in double.
 */
#include "tests/support/test.h"
#include "trainer/ops/cpu/math.h"

#include <float.h>

/* The error in units in the last place of a float near expected. */
static double error_ulps(float found, double expected)
{
    int exponent;
    frexp(expected, &exponent);
    return fabs((double)found - expected) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static void exp_is_within_two_units_of_the_last_place(void **state)
{
    (void)state;
    double worst = 0;
    float worst_at = 0;
    int step = test_is_sanitized() ? 4099 : 67;
    for (int32_t i = -87336000; i <= 88722000; i += step) {
        float x = (float)i * 1e-6f;
        double error = error_ulps(exp_f32(x), exp((double)x));
        if (error > worst) {
            worst = error;
            worst_at = x;
        }
    }
    print_message("exp_f32: at most %.3f units in the last place, at %.9g\n", worst,
                  (double)worst_at);
    assert_true(worst <= 2);
    for (float x = FLT_MIN; x < 1; x *= 1.37f) { /* near zero, on both sides */
        assert_true(error_ulps(exp_f32(x), exp((double)x)) <= 2);
        assert_true(error_ulps(exp_f32(-x), exp((double)-x)) <= 2);
    }
}

static void exp_is_correct_at_its_limits(void **state)
{
    (void)state;
    assert_true(exp_f32(0.0f) == 1.0f);
    assert_true(exp_f32(-0.0f) == 1.0f);
    assert_true(exp_f32(-INFINITY) == 0.0f);
    assert_true(exp_f32(-88.0f) == 0.0f); /* subnormal results are flushed to zero */
    assert_true(exp_f32(-1e30f) == 0.0f);
    assert_true(exp_f32(88.7f) < INFINITY);
    assert_true(isinf(exp_f32(88.73f)) && isinf(exp_f32(1e30f)) && isinf(exp_f32(INFINITY)));
    assert_true(isnan(exp_f32(NAN)));
}

static void log_from_one_is_within_four_units_of_the_last_place(void **state)
{
    (void)state;
    double worst = 0;
    for (double x = 1; x < 1e12; x *= 1.0000137) {
        double expected = log(x),
               error = fabs(log_ge_one(x) - expected) / (nextafter(expected, INFINITY) - expected);
        if (x > 1.001 && error > worst)
            worst = error;
        assert_true(fabs(log_ge_one(x) - expected) <= 4e-16 * (1 + expected));
    }
    print_message("log_ge_one: at most %.1f units in the last place\n", worst);
    assert_true(worst <= 4);
    assert_true(log_ge_one(1) == 0);
    assert_true(isinf(log_ge_one(INFINITY)) && isnan(log_ge_one(NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_two_units_of_the_last_place),
        cmocka_unit_test(exp_is_correct_at_its_limits),
        cmocka_unit_test(log_from_one_is_within_four_units_of_the_last_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
