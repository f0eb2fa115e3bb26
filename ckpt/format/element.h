/*
 * element — reads one number of any dtype, and computes the distance between two. Header-only,
 * because inlining cuts the time of a diff to a third.
 *
 * The 8-bit floating-point formats follow OCP's "8-bit Floating Point Specification": E5M2 is the
 * upper half of a binary16; E4M3 has no infinities, and the largest exponent with an all-ones
 * fraction is NaN.
 */
#ifndef MILLRACE_CKPT_FORMAT_ELEMENT_H
#define MILLRACE_CKPT_FORMAT_ELEMENT_H

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/numeric/half.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

enum element_kind { ELEMENT_REAL, ELEMENT_SIGNED, ELEMENT_UNSIGNED };

/* Exact: a double holds every value of the narrower floating-point dtypes. */
struct element {
    enum element_kind kind;
    union {
        double real;
        int64_t integer;
        uint64_t unsigned_value; /* also BOOL */
    };
};

static inline struct element element_from_real(double value)
{
    return (struct element){.kind = ELEMENT_REAL, .real = value};
}

static inline struct element element_from_integer(int64_t value)
{
    return (struct element){.kind = ELEMENT_SIGNED, .integer = value};
}

static inline struct element element_from_unsigned(uint64_t value)
{
    return (struct element){.kind = ELEMENT_UNSIGNED, .unsigned_value = value};
}

static inline double element_real_from_e4m3(uint8_t bits)
{
    enum { BIAS = 7, FRACTION_BITS = 3 };
    int exponent = bits >> FRACTION_BITS & 15, fraction = bits & 7;
    if (exponent == 15 && fraction == 7)
        return (double)NAN;
    double value = exponent == 0 ? ldexp(fraction, 1 - BIAS - FRACTION_BITS)
                                 : ldexp(8 + fraction, exponent - BIAS - FRACTION_BITS);
    return bits & 0x80 ? -value : value;
}

/* at: dtype_bytes(dtype) bytes, of any alignment. */
static inline struct element element_get(enum dtype dtype, const void *at)
{
    uint8_t byte = *(const uint8_t *)at;
    float narrow;
    double wide;
    switch (dtype) {
    case DTYPE_BOOL:
    case DTYPE_U8:
        return element_from_unsigned(byte);
    case DTYPE_I8:
        return element_from_integer((int8_t)byte);
    case DTYPE_F8_E5M2:
        return element_from_real((double)half_from_f16((uint16_t)(byte << 8)));
    case DTYPE_F8_E4M3:
        return element_from_real(element_real_from_e4m3(byte));
    case DTYPE_I16:
        return element_from_integer((int16_t)bytes_get_u16(at));
    case DTYPE_U16:
        return element_from_unsigned(bytes_get_u16(at));
    case DTYPE_F16:
        return element_from_real((double)half_from_f16(bytes_get_u16(at)));
    case DTYPE_BF16:
        return element_from_real((double)half_from_bf16(bytes_get_u16(at)));
    case DTYPE_I32:
        return element_from_integer((int32_t)bytes_get_u32(at));
    case DTYPE_U32:
        return element_from_unsigned(bytes_get_u32(at));
    case DTYPE_F32:
        memcpy(&narrow, at, sizeof narrow);
        return element_from_real((double)narrow);
    case DTYPE_F64:
        memcpy(&wide, at, sizeof wide);
        return element_from_real(wide);
    case DTYPE_I64:
        return element_from_integer((int64_t)bytes_get_u64(at));
    case DTYPE_U64:
        return element_from_unsigned(bytes_get_u64(at));
    case DTYPE_COUNT:
        break;
    }
    assert(!"a dtype");
    return element_from_unsigned(0);
}

/* Computes |a - b| of two elements of the same kind. Integers: exact, as ELEMENT_UNSIGNED. Reals:
 * subtracted as doubles; NaN if either is NaN. */
static inline struct element element_distance(struct element a, struct element b)
{
    assert(a.kind == b.kind);
    switch (a.kind) {
    case ELEMENT_SIGNED: /* modulo 2^64; the true distance fits */
        return element_from_unsigned(a.integer > b.integer
                                         ? (uint64_t)a.integer - (uint64_t)b.integer
                                         : (uint64_t)b.integer - (uint64_t)a.integer);
    case ELEMENT_UNSIGNED:
        return element_from_unsigned(a.unsigned_value > b.unsigned_value
                                         ? a.unsigned_value - b.unsigned_value
                                         : b.unsigned_value - a.unsigned_value);
    case ELEMENT_REAL:
        break;
    }
    return element_from_real(fabs(a.real - b.real));
}

static inline bool element_is_nan(struct element value)
{
    return value.kind == ELEMENT_REAL && isnan(value.real);
}

/* Compares two distances; NaN exceeds all others. */
static inline bool element_exceeds(struct element a, struct element b)
{
    if (a.kind != ELEMENT_REAL)
        return a.unsigned_value > b.unsigned_value;
    return isnan(a.real) ? !isnan(b.real) : a.real > b.real;
}

#endif
