/*
 * exact_sum — a sum of doubles independent of order and grouping.
 *
 * Each double is split into 32-bit digits of one long fixed-point number that spans the range of
 * double (Kulisch, "Computer arithmetic and validity", 2008). int64 limbs hold the digits, with
 * spare bits for carries. Integer addition is exact and commutative; ranks add partial sums limb by
 * limb (comm's all_reduce_i64 over .limb).
 *
 * A sum, including all merged sums, holds at most 2^30 additions.
 */
#ifndef MILLRACE_BASE_NUMERIC_EXACT_SUM_H
#define MILLRACE_BASE_NUMERIC_EXACT_SUM_H

#include <stdint.h>

/* Bits 2^-1074 .. 2^1023 in 32-bit digits, two more digits for the top value's upper part, and the
 * count of non-finite terms. */
enum {
    EXACT_SUM_LIMBS = 67,
    EXACT_SUM_NONFINITE = EXACT_SUM_LIMBS,
    EXACT_SUM_WORDS = EXACT_SUM_LIMBS + 1
};

/* All zeros: the empty sum. Plain words that can be copied, reduced and stored. */
struct exact_sum {
    int64_t limb[EXACT_SUM_WORDS];
};

void exact_sum_add(struct exact_sum *sum, double term); /* NaN and infinities make the result NaN */
void exact_sum_merge(struct exact_sum *sum, const struct exact_sum *other);
/* The double nearest to the exact sum, ties to even; infinite on overflow. */
double exact_sum_value(const struct exact_sum *sum);

#endif
