/*
 * optimizer — AdamW over the arenas, group by group, with the gradients' exact norm.
 */
#ifndef MILLRACE_TRAINER_OPTIMIZER_H
#define MILLRACE_TRAINER_OPTIMIZER_H

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
    uint8_t *decays;  /* as ops.h's adamw has them, for the whole arena; device memory */
    double *row_sums; /* of all rows of all parameters; device memory */
    uint64_t row_sums_count;
    uint64_t updates; /* made so far: t of the bias correction */
};

/* What optimizer_init takes of the device's memory besides the moments. */
uint64_t optimizer_scratch_bytes(const struct params *params);

int optimizer_init(struct optimizer *optimizer, const struct optimizer_options *options, struct ops *ops,
                   const struct params *params, struct err *err);
void optimizer_deinit(struct optimizer *optimizer);

/* Queues: adds the squares of all gradients to the words of an exact_sum in device memory, which ranks may add up: fp64 sums of
 * rows, then the exact accumulator. */
void optimizer_sum_squares(struct optimizer *optimizer, const void *gradients, int64_t *words);

/* The factor that brings gradients to their mean, clipped: 1/divisor * min(1, clip / (norm + 1e-6)), with *ret_norm = sqrt(squares) /
 * divisor. divisor: how many valid items the gradients are sums over, times the scale of the loss. */
double optimizer_gradient_scale(const struct optimizer *optimizer, double squares, double divisor,
                                double *ret_norm);

/* Begins update number updates + 1, then queues that of one group of weights (master type) in place, with gradient_scale as above.
 * compute: the arena of weights in the compute type, which follows; NULL where there is none of its own. */
void optimizer_begin_update(struct optimizer *optimizer);
void optimizer_update_group(struct optimizer *optimizer, uint64_t group, void *weights, void *compute,
                            const void *gradients, double lr, double gradient_scale);

#endif
