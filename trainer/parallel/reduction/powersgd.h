/*
 * powersgd — the arithmetic of PowerSGD: gradients as products of two thin matrices (Vogels,
 * Karimireddy and Jaggi, "PowerSGD", NeurIPS 2019, in the form of PyTorch's communication hook).
 *
 * For a matrix M [rows, cols], ranks exchange P = M Q [rows, rank] and Q = M'P [cols, rank]; P is
 * made orthonormal in between. P Q' replaces M. The residual is kept and added to the next step's
 * gradient (error feedback). The next step starts with the Q of the last one (warm start).
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_POWERSGD_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_POWERSGD_H

#include "trainer/models/params.h"

#include <stdbool.h>
#include <stdint.h>

struct powersgd_options {
    uint64_t rank;
    uint64_t start_step; /* updates before the first compressed one */
    double min_rate;     /* a matrix that shrinks by less than this factor is sent uncompressed */
    bool error_feedback, warm_start;
    uint64_t seed;
};

/* Columns of P and Q: at most the rank. 0 if the tensor is frozen, is not a matrix, or does not
 * shrink enough: (rows + cols) * rank * min_rate >= rows * cols. */
uint64_t powersgd_rank_of(const struct powersgd_options *options, const struct param *param);

/* Fills the initial Q of a tensor with normally distributed numbers, a function of the seed, its
 * name and the step. */
void powersgd_begin_q(const struct powersgd_options *options, const struct param *param,
                      uint64_t step, uint64_t rank, float *q);
/* Makes the columns orthonormal by Gram-Schmidt. */
void powersgd_orthogonalize(float *matrix, uint64_t rows, uint64_t cols);

#endif
