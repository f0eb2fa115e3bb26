/*
 * half — the two 16-bit kinds of floating-point numbers, widened exactly. Header only.
 */
#ifndef MILLRACE_BASE_HALF_H
#define MILLRACE_BASE_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float half_from_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits. */
static inline float half_from_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
    uint32_t wide;
    float value;
    if (exponent == 0) { /* zero, or fraction * 2^-24 */
        value = ldexpf((float)fraction, -24);
        return sign ? -value : value;
    }
    if (exponent == 31) /* infinite, or not a number */
        wide = sign | 0x7f800000 | fraction << 13;
    else
        wide = sign | (exponent + 127 - 15) << 23 | fraction << 13;
    memcpy(&value, &wide, sizeof value);
    return value;
}

#endif
