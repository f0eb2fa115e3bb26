/*
 * block_case — one transformer block with random weights, input and output gradient, in any of
 * BLOCK_VARIANTS variants.
 */
#ifndef MILLRACE_TESTS_TRAINER_BLOCK_CASE_H
#define MILLRACE_TESTS_TRAINER_BLOCK_CASE_H

#include "trainer/models/block.h"

enum { BLOCK_VARIANTS = 48, BLOCK_ITEMS = 2, BLOCK_TOKENS = 5, BLOCK_WIDTH = 16 };

struct block_case {
    struct ops *ops; /* borrowed; F64 */
    struct params params;
    struct block block;
    uint64_t stream;                               /* number of elements in x, and in out */
    double *weights, *gradients, *x, *out, *r, *d; /* loss = sum of out * r */
    void *saved, *scratch;
};

/* The bits of variant: 0 RMSNorm, 1 RoPE, 2 grouped-query, 3 SwiGLU, 4 causal, 5 norms of q and
 * k. */
struct block_config block_variant(unsigned variant, bool bias);
void block_case_open(struct block_case *c, struct ops *ops, const struct block_config *config);
void block_case_close(struct block_case *c);
double block_case_loss(struct block_case *c);
/* Call after the loss: computes gradients, and d, the gradient of x. */
void block_case_backward(struct block_case *c);

#endif
