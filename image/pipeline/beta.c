/*
 * beta — see beta.h. With alpha = a and x <= 1/2, the cumulative probability is proportional to
 *
 *     G(x) = (x (1 - x))^a * (1 + S(x))
 *     S(x) = sum over n >= 1 of the product over i = 1..n of x (2a + i - 1) / (a + i)
 *
 * (the incomplete beta function, DLMF 8.17.8, with positive terms only). The probability is one
 * half at x = 1/2.
 */
#include "image/pipeline/beta.h"

#include <math.h>

enum { FRACTION_BITS = 32 };

/* Returns base^exponent as a product of repeated square roots, with the exponent's fraction
 * truncated to 32 bits. */
static double power(double base, double exponent)
{
    uint64_t bits = (uint64_t)(exponent * 4294967296.0);
    double result = 1, factor = base;
    for (uint64_t whole = bits >> FRACTION_BITS; whole > 0; whole >>= 1) {
        if (whole & 1)
            result *= factor;
        factor *= factor;
    }
    factor = base;
    for (uint32_t rest = (uint32_t)bits; rest > 0; rest <<= 1) {
        factor = sqrt(factor);
        if (rest >> 31)
            result *= factor;
    }
    return result;
}

static double beta_cdf(double x, double alpha)
{
    double sum = 1, term = 1;
    for (int i = 1; term > sum * 0x1p-60; i++) {
        term *= x * (2 * alpha + i - 1) / (alpha + i);
        sum += term;
    }
    return power(x * (1 - x), alpha) * sum;
}

void beta_init(struct beta *beta, double alpha)
{
    double half = beta_cdf(0.5, alpha);
    for (uint32_t k = 0; k < BETA_EDGES; k++) {
        double part = beta_cdf((k + 0.5) / BETA_ONE, alpha) / half;
        beta->edges[k] = (uint32_t)(part * 0x1p31 + 0.5);
    }
}

uint32_t beta_draw(const struct beta *beta, uint32_t word)
{
    uint32_t rank = word & 0x7fffffff, low = 0, high = BETA_EDGES;
    while (low < high) { /* finds the number of edges <= rank */
        uint32_t middle = (low + high) / 2;
        if (beta->edges[middle] <= rank)
            low = middle + 1;
        else
            high = middle;
    }
    return word >> 31 ? BETA_ONE - low : low;
}
