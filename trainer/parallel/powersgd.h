/*
 * powersgd — gradients as products of two thin matrices: what of PowerSGD is arithmetic (Vogels,
 * Karimireddy and Jaggi, "PowerSGD", NeurIPS 2019, as PyTorch's communication hook has it).
 *
 * Of a matrix M [rows, cols] travel P = M Q [rows, rank] and Q = M'P [cols, rank], P made
 * orthonormal between the two; P Q' takes the place of M. What that leaves out is kept, and added
 * to the next step's gradient (error feedback); the next step begins with the Q of the last one
 * (warm start).
 */
#ifndef MILLRACE_TRAINER_PARALLEL_POWERSGD_H
#define MILLRACE_TRAINER_PARALLEL_POWERSGD_H

#include "trainer/models/params.h"

#include <stdbool.h>
#include <stdint.h>

struct powersgd_options {
    uint64_t rank;
    uint64_t start_step; /* updates before the first that is compressed */
    double min_rate;     /* what is not at least so many times smaller travels as it is */
    bool error_feedback, warm_start;
    uint64_t seed;
};

/* Columns of P and Q: at most the rank. 0: the tensor is frozen, no matrix, or not worth it: (rows
 * + cols) * rank * min_rate >= rows * cols. */
uint64_t powersgd_rank_of(const struct powersgd_options *options, const struct param *param);

/* The Q of a tensor that begins: normal numbers, a function of the seed, its name and the step. */
void powersgd_begin_q(const struct powersgd_options *options, const struct param *param,
                      uint64_t step, uint64_t rank, float *q);
/* Columns become orthogonal to those before them, and of length 1: Gram-Schmidt. */
void powersgd_orthogonalize(float *matrix, uint64_t rows, uint64_t cols);

#endif
