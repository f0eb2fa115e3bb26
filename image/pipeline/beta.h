/*
 * beta — draws from a symmetric Beta distribution, the same on any machine.
 *
 * A table of 32-bit edges maps a random word to a multiple of 1/4096 by integer comparisons. It
 * is computed once from sums, products, quotients and square roots of doubles, which every
 * machine rounds identically, and without libm functions, which differ between versions.
 * docs/reference/images.md specifies it bit for bit.
 */
#ifndef MILLRACE_IMAGE_PIPELINE_BETA_H
#define MILLRACE_IMAGE_PIPELINE_BETA_H

#include <stdint.h>

enum { BETA_ONE = 1 << 12, BETA_EDGES = BETA_ONE / 2, BETA_ALPHA_MAX = 100 };

/* Immutable after beta_init. */
struct beta {
    /* edges[k]: number of words below 2^31 whose draw is at most k. The draws of these words are
     * at most one half. */
    uint32_t edges[BETA_EDGES];
};

/* Initializes Beta(alpha, alpha), 0 < alpha <= BETA_ALPHA_MAX, in about a millisecond. */
void beta_init(struct beta *beta, double alpha);

/* Returns 0..BETA_ONE, rounded to nearest: x has the probability of the interval (x - 1/2, x +
 * 1/2) / BETA_ONE. */
uint32_t beta_draw(const struct beta *beta, uint32_t word);

#endif
