/*
 * exact_parts — splits a double into the fixed-point digits that exact_sum adds. For host code and
 * CUDA kernels. Header only.
 */
#ifndef MILLRACE_BASE_NUMERIC_EXACT_PARTS_H
#define MILLRACE_BASE_NUMERIC_EXACT_PARTS_H

#include "base/shared_inline.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { EXACT_DIGIT_BITS = 32, EXACT_PARTS = 3 };

/* value = sum of part[i] * 2^(EXACT_DIGIT_BITS * (digit + i) - 1074), each part within +-2^32. */
struct exact_parts {
    bool is_finite; /* if false, the other fields are unspecified */
    uint32_t digit;
    int64_t part[EXACT_PARTS];
};

SHARED_INLINE struct exact_parts exact_parts_split(double value)
{
    struct exact_parts parts;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t exponent = (uint32_t)(bits >> 52) & 0x7ff;
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    parts.is_finite = exponent != 0x7ff;
    if (exponent > 0)
        mantissa |= UINT64_C(1) << 52;
    else
        exponent = 1; /* subnormal: no hidden bit, and the scale of the smallest normal */
    /* value = mantissa * 2^(exponent - 1075): its lowest bit is at position exponent - 1 */
    uint32_t place = exponent - 1, shift = place % EXACT_DIGIT_BITS;
    int64_t sign = bits >> 63 ? -1 : 1;
    uint64_t low = mantissa << shift;                     /* bits 0..63 */
    uint64_t high = shift ? mantissa >> (64 - shift) : 0; /* bits 64..84 */
    parts.digit = place / EXACT_DIGIT_BITS;
    parts.part[0] = sign * (int64_t)(low & 0xffffffffu);
    parts.part[1] = sign * (int64_t)(low >> 32);
    parts.part[2] = sign * (int64_t)high;
    return parts;
}

#endif
