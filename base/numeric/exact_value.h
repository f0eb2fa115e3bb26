/*
 * exact_value — rounds an exact sum (exact_sum.h) to a double. For host code and CUDA kernels.
 * Header only.
 */
#ifndef MILLRACE_BASE_NUMERIC_EXACT_VALUE_H
#define MILLRACE_BASE_NUMERIC_EXACT_VALUE_H

#include "base/numeric/exact_parts.h"
#include "base/numeric/exact_sum.h"

#include <math.h>

enum { EXACT_LOWEST_EXPONENT = 1074 };

/* limb: EXACT_SUM_WORDS words. See exact_sum_value. */
SHARED_INLINE double exact_value_round(const int64_t *limb)
{
    if (limb[EXACT_SUM_NONFINITE])
        return (double)NAN;
    /* Carry into digits in [0, 2^32) below a signed top digit, then make the top digit positive. */
    int64_t digit[EXACT_SUM_LIMBS + 1], carry = 0;
    for (int i = 0; i < EXACT_SUM_LIMBS; i++) {
        int64_t value = limb[i] + carry;
        carry = value >> EXACT_DIGIT_BITS; /* arithmetic shift: floor */
        digit[i] = value - carry * (INT64_C(1) << EXACT_DIGIT_BITS);
    }
    digit[EXACT_SUM_LIMBS] = carry;
    double sign = 1;
    if (carry < 0) {
        sign = -1;
        int64_t borrow = 0;
        for (int i = 0; i <= EXACT_SUM_LIMBS; i++) {
            int64_t value = -digit[i] - borrow;
            borrow = i < EXACT_SUM_LIMBS && value < 0;
            digit[i] = value + borrow * (INT64_C(1) << EXACT_DIGIT_BITS);
        }
    }
    /* Take the 64 leading bits, and set the last one if any lower bit is set, so that converting
     * them to 53 bits rounds like the exact value. ldexp does not round, because the result's
     * exponent is at least that of the lowest bit. */
    int top = EXACT_SUM_LIMBS;
    while (top > 1 && digit[top] == 0)
        top--;
    uint64_t high = (uint64_t)digit[top] << EXACT_DIGIT_BITS | (uint64_t)digit[top - 1],
             low = top > 1 ? (uint64_t)digit[top - 2] : 0;
    int shift = 0; /* a value below 2^32 needs no shift */
    while (high >> EXACT_DIGIT_BITS && !(high << shift >> 63))
        shift++;
    if (shift > 0)
        high = high << shift | low >> (EXACT_DIGIT_BITS - shift);
    bool rest = (low << shift & 0xffffffffu) != 0;
    for (int i = top - 3; i >= 0 && !rest; i--)
        rest = digit[i] != 0;
    double value =
        ldexp((double)(high | rest), (top - 1) * EXACT_DIGIT_BITS - shift - EXACT_LOWEST_EXPONENT);
    return sign * value;
}

#endif
