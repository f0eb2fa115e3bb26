/*
 * A double holds every value of the other dtypes, so each conversion goes through double and rounds
 * once, in integer arithmetic. Common pairs have their own loops, which compilers vectorize.
 */
#include "ckpt/format/cast.h"

#include "ckpt/format/element.h"

#include <assert.h>
#include <string.h>

bool cast_is_float(enum dtype dtype)
{
    return dtype == DTYPE_F64 || dtype == DTYPE_F32 || dtype == DTYPE_F16 || dtype == DTYPE_BF16 ||
           dtype == DTYPE_F8_E5M2 || dtype == DTYPE_F8_E4M3;
}

/* A binary format of at most 16 bits. */
struct float_format {
    int exponent_bits, fraction_bits;
    uint32_t overflow; /* code for values that are too large */
    uint32_t nan;
};

static const struct float_format f16 = {5, 10, 0x7c00, 0x7e00}, bf16 = {8, 7, 0x7f80, 0x7fc0},
                                 e5m2 = {5, 2, 0x7c, 0x7e}, e4m3 = {4, 3, 0x7f, 0x7f};

/* Rounds significand / 2^shift to the nearest integer, ties to even. */
static uint64_t shift_rounded(uint64_t significand, int shift)
{
    if (shift > 54) /* below 1/4: the significand has 53 bits */
        return 0;
    uint64_t whole = significand >> shift, rest = significand & (((uint64_t)1 << shift) - 1),
             half = (uint64_t)1 << (shift - 1);
    return whole + (rest > half || (rest == half && whole & 1));
}

/* Encodes a finite or infinite value >= 0, without the sign. A carry out of the fraction correctly
 * increments the exponent. */
static uint32_t encode_magnitude(const struct float_format *format, uint64_t bits)
{
    enum { DOUBLE_FRACTION_BITS = 52, DOUBLE_BIAS = 1023 };
    int bias = (1 << (format->exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> DOUBLE_FRACTION_BITS) - DOUBLE_BIAS;
    int exponent_min = 1 - bias; /* of a normal number */
    int shift = DOUBLE_FRACTION_BITS - format->fraction_bits;
    uint64_t significand =
        (bits & (((uint64_t)1 << DOUBLE_FRACTION_BITS) - 1)) | (uint64_t)1 << DOUBLE_FRACTION_BITS;
    uint64_t code;
    if (exponent > bias + 1)
        return format->overflow;
    if (exponent < exponent_min) /* zero and subnormal doubles also become 0 */
        code = shift_rounded(significand, shift + (exponent_min - exponent));
    else
        code = ((uint64_t)(exponent - exponent_min) << format->fraction_bits) +
               shift_rounded(significand, shift);
    return code < format->overflow ? (uint32_t)code : format->overflow;
}

static uint32_t encode_signed(const struct float_format *format, double value, int width_bits)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = (uint32_t)(bits >> 63) << (width_bits - 1);
    bits &= INT64_MAX;
    return sign | (isnan(value) ? format->nan : encode_magnitude(format, bits));
}

static void store_rounded(enum dtype dtype, double value, char *at)
{
    float narrow = (float)value; /* rounds to nearest even, C's default rounding mode */
    uint16_t half;
    switch (dtype) {
    case DTYPE_F64:
        memcpy(at, &value, sizeof value);
        return;
    case DTYPE_F32:
        memcpy(at, &narrow, sizeof narrow);
        return;
    case DTYPE_F16:
    case DTYPE_BF16:
        half = (uint16_t)encode_signed(dtype == DTYPE_F16 ? &f16 : &bf16, value, 16);
        memcpy(at, &half, sizeof half);
        return;
    case DTYPE_F8_E5M2:
    case DTYPE_F8_E4M3:
        *(uint8_t *)at = (uint8_t)encode_signed(dtype == DTYPE_F8_E5M2 ? &e5m2 : &e4m3, value, 8);
        return;
    default:
        assert(!"a dtype of real numbers");
    }
}

static void narrow_to_bf16(const char *source, char *target, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, source + i * sizeof bits, sizeof bits);
        uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        uint32_t nan = (bits >> 16 & 0x8000) | bf16.nan;
        uint16_t half = (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
        memcpy(target + i * sizeof half, &half, sizeof half);
    }
}

static void widen_bf16(const char *source, char *target, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, source + i * sizeof half, sizeof half);
        uint32_t bits = (uint32_t)half << 16;
        memcpy(target + i * sizeof bits, &bits, sizeof bits);
    }
}

void cast_elements(enum dtype from, const void *source, enum dtype to, void *target, uint64_t count)
{
    size_t from_bytes = dtype_bytes(from), to_bytes = dtype_bytes(to);
    assert(from == to || (cast_is_float(from) && cast_is_float(to)));
    if (from == to)
        memcpy(target, source, count * from_bytes);
    else if (from == DTYPE_F32 && to == DTYPE_BF16)
        narrow_to_bf16(source, target, count);
    else if (from == DTYPE_BF16 && to == DTYPE_F32)
        widen_bf16(source, target, count);
    else
        for (uint64_t i = 0; i < count; i++)
            store_rounded(to, element_get(from, (const char *)source + i * from_bytes).real,
                          (char *)target + i * to_bytes);
}
