/*
 * linear — y = x W^T + b and its backward pass: three planned products. Header only.
 *
 * W is [out, in], as in checkpoints. Offsets are in elements from the start of a unit's weights.
 * They also identify gradients, whose offsets differ if part of the unit is frozen.
 */
#ifndef MILLRACE_TRAINER_MODELS_LINEAR_H
#define MILLRACE_TRAINER_MODELS_LINEAR_H

#include "trainer/models/params.h"
#include "trainer/ops/ops.h"

#include <stdbool.h>
#include <stdint.h>

struct linear {
    uint64_t rows, in, out;
    uint64_t weight, bias; /* offsets, in elements */
    bool has_bias;
    bool adds_gradients; /* backward passes add to gradients */
    struct gemm_plan forward, backward_input, backward_weight;
};

struct unit_gradients {
    const struct params *params;
    uint64_t unit;
    void *memory;
};

static inline const void *linear_weights(const struct ops *ops, const void *weights,
                                         uint64_t offset)
{
    return (const char *)weights + offset * ops_compute_bytes(ops);
}

/* The gradient of the parameter at this weight offset; NULL if frozen. */
static inline void *linear_gradients(const struct ops *ops, const struct unit_gradients *gradients,
                                     uint64_t offset)
{
    uint64_t trained_offset, first = gradients->params->units[gradients->unit].trained_offset;
    return params_trained_offset(gradients->params, gradients->unit, offset, &trained_offset)
               ? (char *)gradients->memory + (trained_offset - first) * ops_master_bytes(ops)
               : NULL;
}

/* Plans the products; the caller sets all other members. */
static inline int linear_plan(struct linear *linear, struct ops *ops, struct err *err)
{
    const struct gemm_shape forward = {.m = linear->rows,
                                       .n = linear->out,
                                       .k = linear->in,
                                       .trans_b = true,
                                       .bias = linear->has_bias};
    const struct gemm_shape backward_input = {.m = linear->rows, .n = linear->in, .k = linear->out};
    const struct gemm_shape backward_weight = {.m = linear->out,
                                               .n = linear->in,
                                               .k = linear->rows,
                                               .trans_a = true,
                                               .master_output = true,
                                               .accumulate = linear->adds_gradients};
    int status = ops->table->plan_gemm(ops, &forward, &linear->forward, err);
    if (status == 0)
        status = ops->table->plan_gemm(ops, &backward_input, &linear->backward_input, err);
    if (status == 0)
        status = ops->table->plan_gemm(ops, &backward_weight, &linear->backward_weight, err);
    if (status == 0 && linear->has_bias)
        status = ops->table->plan_rows(ops, linear->rows, linear->out, err);
    return status;
}

static inline void linear_forward(const struct linear *linear, struct ops *ops, const void *weights,
                                  const void *x, void *y)
{
    const void *bias = linear->has_bias ? linear_weights(ops, weights, linear->bias) : NULL;
    ops->table->gemm(ops, &linear->forward, x, linear_weights(ops, weights, linear->weight), bias,
                     y);
}

/* Skips the gradients of frozen parameters, and d_x if it is NULL. */
static inline void linear_backward(const struct linear *linear, struct ops *ops,
                                   const void *weights, const void *x, const void *d_y,
                                   const struct unit_gradients *gradients, void *d_x)
{
    void *d_weight = linear_gradients(ops, gradients, linear->weight);
    void *d_bias = linear->has_bias ? linear_gradients(ops, gradients, linear->bias) : NULL;
    if (d_weight)
        ops->table->gemm(ops, &linear->backward_weight, d_y, x, NULL, d_weight);
    if (d_bias)
        ops->table->bias_bwd(ops, d_bias, d_y, linear->rows, linear->out, linear->adds_gradients);
    if (d_x)
        ops->table->gemm(ops, &linear->backward_input, d_y,
                         linear_weights(ops, weights, linear->weight), NULL, d_x);
}

/* Floating-point operations of the given number of products, 1 to 3. */
static inline double linear_flops(const struct linear *linear, unsigned products)
{
    return 2.0 * products * (double)linear->rows * (double)linear->in * (double)linear->out;
}

#endif
