/*
 * ops_cpu_math — exp, log and sums for the cpu's kernels. Result bits depend only on the arguments.
 *
 * exp_f32 replaces libm's expf: it prevents vectorization, and its bits vary by version. exp_f64
 * calls libm; only gradient checks use it. Sums use LANES interleaved partial sums, folded in
 * halves; vector registers of any width can follow this order. The compiler flags (mr_flags) forbid
 * fused and reassociated operations.
 */
#ifndef MILLRACE_TRAINER_OPS_CPU_MATH_H
#define MILLRACE_TRAINER_OPS_CPU_MATH_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Compiles a kernel for several instruction sets with bit-identical results; the dynamic loader
 * picks the best. Disabled with clang and sanitizers. */
#if defined __x86_64__ && defined __GNUC__ && !defined __clang__ && !defined MR_SANITIZED
#define KERNEL __attribute__((target_clones("avx512f", "avx2", "default")))
/* The instruction set that KERNEL selects, found by the same tests as in the compiler's
 * resolver. */
static inline const char *kernel_isa(void)
{
    return __builtin_cpu_supports("avx512f") ? "avx512f"
           : __builtin_cpu_supports("avx2")  ? "avx2"
                                             : "baseline";
}
#else
#define KERNEL
static inline const char *kernel_isa(void)
{
    return "baseline";
}
#endif
/* Inlined, so compiled for the calling kernel's instruction set. */
#define IN_KERNEL static inline __attribute__((always_inline))

/* e^x within 2 ulp; 0 below the smallest normal float; infinity and NaN as in IEEE 754. Cody-Waite
 * range reduction and the polynomial of Cephes' expf (Moshier). */
IN_KERNEL float exp_f32(float x)
{
    const float lowest = -87.33654f, highest = 88.72283f; /* log of FLT_MIN, FLT_MAX */
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves the integer in the low bits */
    float clamped = x < lowest ? lowest : x;
    clamped = clamped > highest ? highest : clamped;
    float shifted = clamped * 1.44269504f + round;
    float whole = shifted - round;
    float r = clamped - whole * 0.693359375f;
    r = r - whole * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    /* Multiplies by 2^whole by adding to the exponent; the shift drops the bits of `round`. */
    uint32_t power, bits;
    memcpy(&power, &shifted, sizeof power);
    memcpy(&bits, &p, sizeof bits);
    bits += power << 23;
    memcpy(&p, &bits, sizeof p);
    p = x < lowest ? 0.0f : p;
    return x <= highest ? p : x * 3.4028235e38f; /* overflow; keeps NaN */
}

IN_KERNEL double exp_f64(double x)
{
    return exp(x);
}

/* log(x) for x >= 1, within 2 ulp, from 2 atanh((m - 1) / (m + 1)) for the mantissa m in
 * [sqrt(1/2), sqrt(2)). Branch-free, so that loops vectorize. */
IN_KERNEL double log_ge_one(double x)
{
    const uint64_t one = UINT64_C(0x3ff) << 52;
    const uint64_t half = UINT64_C(0x3fe6a09e667f3bcd);
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint64_t exponent = (bits - half) >> 52; /* x = m 2^exponent */
    bits -= exponent << 52;
    double m, exponent_as_double;
    memcpy(&m, &bits, sizeof m);
    bits = one + (UINT64_C(52) << 52) + exponent; /* 2^52 + exponent */
    memcpy(&exponent_as_double, &bits, sizeof bits);
    exponent_as_double -= 4503599627370496.0;
    double s = (m - 1) / (m + 1), z = s * s, sum = 1.0 / 21;
    sum = sum * z + 1.0 / 19;
    sum = sum * z + 1.0 / 17;
    sum = sum * z + 1.0 / 15;
    sum = sum * z + 1.0 / 13;
    sum = sum * z + 1.0 / 11;
    sum = sum * z + 1.0 / 9;
    sum = sum * z + 1.0 / 7;
    sum = sum * z + 1.0 / 5;
    sum = sum * z + 1.0 / 3;
    double log = exponent_as_double * 0.69314718055994531 + (2 * s + 2 * s * (sum * z));
    return x < HUGE_VAL ? log : x; /* infinity, NaN */
}

#endif
