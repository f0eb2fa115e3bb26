/*
 * exact_sum — see exact_sum.h.
 */
#include "base/exact_sum.h"

#include "base/exact_parts.h"

#include <math.h>
#include <stdbool.h>

enum { DIGIT_BITS = EXACT_DIGIT_BITS, LOWEST_EXPONENT = 1074 };

void exact_sum_add(struct exact_sum *sum, double term)
{
    struct exact_parts parts = exact_parts_of(term);
    if (!parts.is_finite) {
        sum->limb[EXACT_SUM_NONFINITE]++;
        return;
    }
    for (int i = 0; i < EXACT_PARTS; i++)
        sum->limb[parts.digit + (uint32_t)i] += parts.part[i];
}

void exact_sum_merge(struct exact_sum *sum, const struct exact_sum *other)
{
    for (int i = 0; i < EXACT_SUM_WORDS; i++)
        sum->limb[i] += other->limb[i];
}

double exact_sum_value(const struct exact_sum *sum)
{
    if (sum->limb[EXACT_SUM_NONFINITE])
        return NAN;
    /* Carry into digits of [0, 2^32) below a signed top, then flip the sign so that the top is positive. */
    int64_t digit[EXACT_SUM_LIMBS + 1], carry = 0;
    for (int i = 0; i < EXACT_SUM_LIMBS; i++) {
        int64_t value = sum->limb[i] + carry;
        carry = value >> DIGIT_BITS; /* arithmetic shift: floor */
        digit[i] = value - carry * (INT64_C(1) << DIGIT_BITS);
    }
    digit[EXACT_SUM_LIMBS] = carry;
    double sign = 1;
    if (carry < 0) {
        sign = -1;
        int64_t borrow = 0;
        for (int i = 0; i <= EXACT_SUM_LIMBS; i++) {
            int64_t value = -digit[i] - borrow;
            borrow = i < EXACT_SUM_LIMBS && value < 0;
            digit[i] = value + borrow * (INT64_C(1) << DIGIT_BITS);
        }
    }
    /* The 64 leading bits, the last one set where anything non-zero lies below: converting those to 53 bits rounds once,
     * as the exact value would. The result's exponent is at least that of the lowest bit, so ldexp has nothing to round. */
    int top = EXACT_SUM_LIMBS;
    while (top > 1 && digit[top] == 0)
        top--;
    uint64_t high = (uint64_t)digit[top] << DIGIT_BITS | (uint64_t)digit[top - 1],
             low = top > 1 ? (uint64_t)digit[top - 2] : 0;
    int shift =
        high >> DIGIT_BITS ? __builtin_clzll(high) : 0; /* less than 33 bits are exact as they stand */
    if (shift > 0)
        high = high << shift | low >> (DIGIT_BITS - shift);
    bool rest = (low << shift & 0xffffffffu) != 0;
    for (int i = top - 3; i >= 0 && !rest; i--)
        rest = digit[i] != 0;
    double value = ldexp((double)(high | rest), (top - 1) * DIGIT_BITS - shift - LOWEST_EXPONENT);
    return sign * value;
}
