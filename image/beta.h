/*
 * beta — numbers drawn from a symmetric Beta distribution, the same on any machine.
 *
 * A table of 32-bit edges, made once, turns a random word into a number of 4096ths by comparisons
 * of integers. Making it takes additions, products, quotients and square roots of doubles alone,
 * which every machine rounds alike; no function of libm, whose last bits differ between its
 * versions. docs/reference/images.md says how, to the bit.
 */
#ifndef MILLRACE_IMAGE_BETA_H
#define MILLRACE_IMAGE_BETA_H

#include <stdint.h>

enum { BETA_ONE = 1 << 12, BETA_EDGES = BETA_ONE / 2, BETA_ALPHA_MAX = 100 };

/* Immutable once made. */
struct beta {
    /* k: how many of the 2^31 words below 2^31, which give at most one half, give at most k. */
    uint32_t edges[BETA_EDGES];
};

/* Of Beta(alpha, alpha), 0 < alpha <= BETA_ALPHA_MAX. Takes about a millisecond. */
void beta_init(struct beta *beta, double alpha);

/* 0..BETA_ONE, rounded to the nearest: x with the probability of (x - 1/2, x + 1/2) / BETA_ONE. */
uint32_t beta_draw(const struct beta *beta, uint32_t word);

#endif
