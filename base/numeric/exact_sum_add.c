/*
 * exact_sum_add — see exact_sum.h.
 */
#include "base/numeric/exact_sum.h"

#include "base/numeric/exact_parts.h"
#include "base/numeric/exact_value.h"

void exact_sum_add(struct exact_sum *sum, double term)
{
    struct exact_parts parts = exact_parts_split(term);
    if (!parts.is_finite) {
        sum->limb[EXACT_SUM_NONFINITE]++;
        return;
    }
    for (int i = 0; i < EXACT_PARTS; i++)
        sum->limb[parts.digit + (uint32_t)i] += parts.part[i];
}

void exact_sum_merge(struct exact_sum *sum, const struct exact_sum *other)
{
    for (int i = 0; i < EXACT_SUM_WORDS; i++)
        sum->limb[i] += other->limb[i];
}

double exact_sum_value(const struct exact_sum *sum)
{
    return exact_value_round(sum->limb);
}
