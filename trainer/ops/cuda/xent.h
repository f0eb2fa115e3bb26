/*
 * xent — softmax cross-entropy, as defined in ops.h. The gradient replaces the logits.
 *
 * One pass over a row computes the maximum and the sum of exponentials. A second pass writes the
 * gradient if requested, mostly from cache. With few classes a warp handles a row, else a block.
 * Sums are in double, in an order that depends only on the number of classes.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_XENT_H
#define MILLRACE_TRAINER_OPS_CUDA_XENT_H

#include "base/dtype.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct xent_shape;

struct cuda_xent_arrays {
    void *logits; /* [items * tokens, stride], 16-byte aligned */
    double *losses;
    uint8_t *correct;
    const int32_t *targets;
    /* As in struct xent_mix (ops.h). Both NULL: one target per row. */
    const int32_t *second_targets;
    const float *weights;
    const double *gradient_scale; /* optional */
};

/* Queued on the stream. Sizes are at least 1. Padding is excluded from the softmax and gets
 * gradient 0. type: the type of the logits, DTYPE_F32, DTYPE_BF16 or DTYPE_F16.
 * cudaErrorInvalidValue for any other type or a stride below classes or above 2^30. Fastest if
 * stride is a multiple of 8 (F32: 4). If the first target is not negative, but one of the targets
 * is not a class, the loss is NaN and the gradient is zero. */
cudaError_t cuda_xent(enum dtype type, const struct xent_shape *shape,
                      const struct cuda_xent_arrays *arrays, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
