/*
 * ops_cpu_math — exp, log and sums for the cpu's kernels, written so that the bits depend on nothing but the arguments.
 *
 * The float exp is ours, since a vectorised loop can't call libm, and libm's bits change with its version; the double one is
 * libm's (only tests by differences use it). Sums run in LANES interleaved partial sums, folded in halves: an order that
 * vector registers of any width can keep. Nothing here is compiled with fused or reassociated operations (mr_flags).
 */
#ifndef MILLRACE_TRAINER_OPS_CPU_MATH_H
#define MILLRACE_TRAINER_OPS_CPU_MATH_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A kernel is compiled for several instruction sets and the loader takes the best; as all of them do the same IEEE operations, the
 * bits are the same. clang and the sanitizers do without. */
#if defined __x86_64__ && defined __GNUC__ && !defined __clang__ && !defined MR_SANITIZED
#define KERNEL __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define KERNEL
#endif
/* Must become part of the kernel that calls it, to be compiled for its instruction set. */
#define IN_KERNEL static inline __attribute__((always_inline))

/* e^x within 2 units in the last place; 0 below the smallest normal float, infinity and NaN as they should be. Range reduction by
 * Cody and Waite, polynomial of Cephes' expf (Moshier). */
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
    uint32_t power, bits; /* times 2^whole: added to the exponent; the shift drops all of round's own bits */
    memcpy(&power, &shifted, sizeof power);
    memcpy(&bits, &p, sizeof bits);
    bits += power << 23;
    memcpy(&p, &bits, sizeof p);
    p = x < lowest ? 0.0f : p;
    return x <= highest ? p : x * 3.4028235e38f; /* too large: infinity; NaN: NaN */
}

IN_KERNEL double exp_f64(double x)
{
    return exp(x);
}

/* The natural logarithm of x >= 1 within some 2 units in the last place: 2 atanh((m - 1) / (m + 1)) of the mantissa. */
static inline double log_from_one(double x)
{
    if (!(x < HUGE_VAL))
        return x; /* infinity, NaN */
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1023) << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent++;
    }
    double s = (m - 1) / (m + 1), z = s * s, sum = 0;
    for (int term = 21; term >= 3; term -= 2)
        sum = (sum + 1.0 / term) * z;
    return exponent * 0.69314718055994531 + (2 * s + 2 * s * sum);
}

#endif
