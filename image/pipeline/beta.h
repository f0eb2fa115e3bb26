/*
 * beta — draws from a symmetric Beta distribution, the same on any machine.
 *
 * A table of 32-bit edges, computed once, turns a random word into 4096ths by integer comparisons.
 * Computing it uses only additions, products, quotients and square roots of doubles, which every
 * machine rounds identically. It avoids libm functions, whose last bits differ between versions.
 * docs/reference/images.md specifies it to the bit.
 */
#ifndef MILLRACE_IMAGE_PIPELINE_BETA_H
#define MILLRACE_IMAGE_PIPELINE_BETA_H

#include <stdint.h>

enum { BETA_ONE = 1 << 12, BETA_EDGES = BETA_ONE / 2, BETA_ALPHA_MAX = 100 };

/* Immutable after beta_init. */
struct beta {
    /* edges[k]: how many of the words below 2^31, which give at most one half, give at most k. */
    uint32_t edges[BETA_EDGES];
};

/* For Beta(alpha, alpha), 0 < alpha <= BETA_ALPHA_MAX. Takes about a millisecond. */
void beta_init(struct beta *beta, double alpha);

/* 0..BETA_ONE, rounded to nearest: x has the probability of (x - 1/2, x + 1/2) / BETA_ONE. */
uint32_t beta_draw(const struct beta *beta, uint32_t word);

#endif
