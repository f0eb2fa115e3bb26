/*
 * optimizer — AdamW over the arenas, group by group, with the gradients' exact norm.
 */
#ifndef MILLRACE_TRAINER_OPTIMIZER_H
#define MILLRACE_TRAINER_OPTIMIZER_H

#include "base/exact_sum.h"
#include "trainer/ops.h"
#include "trainer/params.h"

#include <stdint.h>

/* Immutable. */
struct optimizer_options {
    double beta1, beta2, epsilon, weight_decay;
    double clip_norm; /* 0: none */
};

/* Owner thread. Owns the moments: device memory of the ops, master type, laid out as params; zero at first. */
struct optimizer {
    struct optimizer_options options;
    struct ops *ops;
    const struct params *params; /* borrowed */
    void *moment1, *moment2;
    double *row_sums; /* for the longest column of rows */
    uint64_t row_sums_count;
    uint64_t updates; /* made so far: t of the bias correction */
};

int optimizer_init(struct optimizer *optimizer, const struct optimizer_options *options, struct ops *ops,
                   const struct params *params, struct err *err);
void optimizer_deinit(struct optimizer *optimizer);

/* Adds the squares of all gradients to sum: fp64 sums of rows, then the exact accumulator, which ranks may add up. */
int optimizer_sum_squares(struct optimizer *optimizer, const void *gradients, struct exact_sum *sum,
                          struct err *err);

/* The factor that brings gradients (sums over valid items) to their mean, clipped: scale = 1/valid * min(1, clip / (norm + 1e-6)), with
 * *ret_norm = sqrt(squares) / valid. */
double optimizer_gradient_scale(const struct optimizer *optimizer, double squares, double valid_count,
                                double *ret_norm);

/* Begins update number updates + 1, then updates one group of weights (master type) in place, with gradient_scale as above. */
void optimizer_begin_update(struct optimizer *optimizer);
void optimizer_update_group(struct optimizer *optimizer, uint64_t group, void *weights, const void *gradients,
                            double lr, double gradient_scale);

#endif
