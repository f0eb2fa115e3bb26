/*
 * powersgd — PowerSGD low-rank gradient compression (Vogels, Karimireddy and Jaggi, "PowerSGD",
 * NeurIPS 2019), as in PyTorch's communication hook.
 *
 * For a matrix M [rows, cols], ranks exchange P = M Q [rows, rank], orthonormalize it, then
 * exchange Q = M'P [cols, rank]; P Q' replaces M. Error feedback adds the residual to the next
 * step's gradient. Warm start reuses Q.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_POWERSGD_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_POWERSGD_H

#include "trainer/models/params.h"

#include <stdbool.h>
#include <stdint.h>

struct powersgd_options {
    uint64_t rank;
    uint64_t start_step; /* number of updates before the first compressed one */
    double min_rate;     /* minimum compression ratio; matrices below it stay uncompressed */
    bool error_feedback, warm_start;
    uint64_t seed;
};

/* Returns the number of columns of P and Q; 0 if the tensor is frozen, not a matrix, or not
 * compressed enough: (rows + cols) * rank * min_rate >= rows * cols. */
uint64_t powersgd_compression_rank(const struct powersgd_options *options,
                                   const struct param *param);

/* Fills the initial Q with normally distributed random numbers, derived from the seed, the name and
 * the step. */
void powersgd_init_q(const struct powersgd_options *options, const struct param *param,
                     uint64_t step, uint64_t rank, float *q);
/* Orthonormalizes the columns by Gram-Schmidt. */
void powersgd_orthogonalize(float *matrix, uint64_t rows, uint64_t cols);

#endif
