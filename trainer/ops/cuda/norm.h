/*
 * norm — LayerNorm and RMSNorm, forward and backward, as defined in ops.h.
 *
 * x, out, their gradients, weight and bias have the compute type; statistics and the gradients of
 * weight and bias are float. Calls queue on the stream.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_NORM_H
#define MILLRACE_TRAINER_OPS_CUDA_NORM_H

#include "base/dtype.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct norm_shape;

struct cuda_norm_fwd_arrays {
    void *out;
    float *mean, *rstd; /* mean: LayerNorm only */
    const void *x, *weight, *bias;
};
cudaError_t cuda_norm_fwd(enum dtype type, const struct norm_shape *shape,
                          const struct cuda_norm_fwd_arrays *arrays, cudaStream_t stream);

struct cuda_norm_bwd_arrays {
    void *d_x;                /* added to; replaced if d_out is NULL */
    float *d_weight, *d_bias; /* d_bias: LayerNorm only */
    const void *d_out, *x, *weight;
    const float *mean, *rstd;
    float *workspace; /* cuda_norm_bwd_workspace_floats */
};
uint64_t cuda_norm_bwd_workspace_floats(const struct norm_shape *shape);
cudaError_t cuda_norm_bwd(enum dtype type, const struct norm_shape *shape,
                          const struct cuda_norm_bwd_arrays *arrays, bool accumulate,
                          cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
