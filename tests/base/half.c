/*
 * half — compares all 65536 binary16 values with the definition.
 */
#include "base/numeric/half.h"

#include "tests/support/test.h"

#include <math.h>

static void every_binary16_has_its_sign_fraction_and_exponent(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        int sign = bits & 0x8000 ? -1 : 1, exponent = bits >> 10 & 31, fraction = bits & 1023;
        float value = half_from_f16((uint16_t)bits);
        double expected = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
        if (exponent == 31 && fraction) {
            assert_true(isnan(value));
            continue;
        }
        if (exponent == 31)
            expected = INFINITY;
        assert_true((double)value == sign * expected);
        assert_int_equal(signbit(value) != 0, sign < 0);
    }
}

static void a_bfloat16_is_the_upper_half_of_a_float(void **state)
{
    (void)state;
    assert_true(half_from_bf16(0x3f80) == 1.0f);
    assert_true(half_from_bf16(0xc049) == -3.140625f);
    assert_true(isinf(half_from_bf16(0x7f80)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_binary16_has_its_sign_fraction_and_exponent),
        cmocka_unit_test(a_bfloat16_is_the_upper_half_of_a_float),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
