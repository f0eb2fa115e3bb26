/*
 * xent — softmax cross-entropy, its gradient in place of the logits. ops.h has what it computes.
 *
 * A row is read, and read again where the gradient is wanted, then mostly from a cache: maximum and
 * sum of exponentials come of one pass. Few classes: a warp a row, else a block. A thread sums in
 * double, and the sums of threads are added in double, in an order that the number of classes alone
 * decides.
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

/* Device memory. */
struct cuda_xent_arrays {
    void *logits; /* [items * tokens, stride], 16-byte aligned */
    double *losses;
    uint8_t *correct;
    const int32_t *targets;
    const int32_t *
        /* with weights, those of struct xent_mix (ops.h); both NULL: a row has one target */
        second_targets;
    const float *weights;
    const double *gradient_scale; /* NULL: the logits stay as they are */
};

/* Queued on the stream. Sizes are at least 1. Padding is not part of the softmax, and 0 in the
 * gradient. logits: of the type DTYPE_F32, DTYPE_BF16 or DTYPE_F16; another, or a stride below
 * classes or above 2^30, is cudaErrorInvalidValue. Fastest where stride is a multiple of 8 (F32:
 * 4). A target that is no class, or a second one beside a first that is, loses NaN and has a
 * gradient of zero. */
cudaError_t cuda_xent(enum dtype type, const struct xent_shape *shape,
                      const struct cuda_xent_arrays *arrays, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
