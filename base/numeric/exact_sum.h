/*
 * exact_sum — a sum of doubles independent of order and grouping.
 *
 * Each double is split into 32-bit digits of one long fixed-point number that spans the whole range
 * of double (Kulisch, "Computer arithmetic and validity", 2008), held in int64 limbs with spare
 * bits for carries. Integer addition is exact and commutative, and ranks add partial sums limb by
 * limb (comm's all_reduce_i64 over .limb).
 *
 * At most 2^30 additions between two reads; the limit applies to the total when limbs of several
 * sums are added.
 */
#ifndef MILLRACE_BASE_NUMERIC_EXACT_SUM_H
#define MILLRACE_BASE_NUMERIC_EXACT_SUM_H

#include <stdint.h>

/* Bits 2^-1074 .. 2^1023 in digits of 32, two more for the upper part of the last, and the count of
 * non-finite terms. */
enum {
    EXACT_SUM_LIMBS = 67,
    EXACT_SUM_NONFINITE = EXACT_SUM_LIMBS,
    EXACT_SUM_WORDS = EXACT_SUM_LIMBS + 1
};

/* Zero is the empty sum. Plain int64 words that can be copied, reduced and stored. */
struct exact_sum {
    int64_t limb[EXACT_SUM_WORDS];
};

void exact_sum_add(struct exact_sum *sum, double term); /* NaN and infinities make the result NaN */
void exact_sum_merge(struct exact_sum *sum, const struct exact_sum *other);
/* The double nearest to the exact sum, ties to even; infinite on overflow. */
double exact_sum_value(const struct exact_sum *sum);

#endif
