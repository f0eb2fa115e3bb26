/*
 * half — exact conversion from bf16 and f16, and rounding to them. Header only.
 */
#ifndef MILLRACE_BASE_NUMERIC_HALF_H
#define MILLRACE_BASE_NUMERIC_HALF_H

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
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
             fraction = bits & 1023;
    uint32_t wide;
    float value;
    if (exponent == 0) { /* zero, or fraction * 2^-24 */
        value = ldexpf((float)fraction, -24);
        return sign ? -value : value;
    }
    if (exponent == 31) /* infinity or NaN */
        wide = sign | 0x7f800000 | fraction << 13;
    else
        wide = sign | (exponent + 127 - 15) << 23 | fraction << 13;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Rounds to nearest, ties to even; overflow gives infinity, NaN stays NaN. */
static inline uint16_t half_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16,
             nan = (bits >> 16 & 0x8000) | 0x7fc0;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

static inline uint16_t half_to_f16(float value)
{
    uint32_t bits, sign;
    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    /* normal: adjusts the bias and rounds 13 bits away; a carry correctly raises the exponent */
    uint32_t code = (bits - ((127 - 15) << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
    if (bits < 0x38800000) { /* subnormal: adding 0.5 rounds to its ulp, 2^-24 */
        float small, half = 0.5f;
        uint32_t sum, base;
        memcpy(&small, &bits, sizeof small);
        small += half;
        memcpy(&sum, &small, sizeof sum);
        memcpy(&base, &half, sizeof base);
        code = sum - base;
    }
    if (bits >= 0x47800000) /* 2^16 */
        code = bits > 0x7f800000 ? 0x7e00 : 0x7c00;
    return (uint16_t)(sign | code);
}

#endif
