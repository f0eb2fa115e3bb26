/*
 * attention — attention and its backward pass on a CUDA device, as defined in trainer/ops/ops.h, in
 * memory linear in tokens.
 *
 *     cuda_attention_prepare(DTYPE_BF16, &shape)                                    once per shape
 *     cuda_attention_fwd(DTYPE_BF16, &shape, &(struct cuda_attention_fwd_arrays){...}, stream)
 *     cuda_attention_bwd(DTYPE_BF16, &shape, &(struct cuda_attention_bwd_arrays){...}, stream)
 *
 * head_dim is at most 256. BF16 and F16 use tensor cores with float sums and require a head_dim
 * divisible by 8. F32 uses plain float arithmetic, which is slow. Results depend only on shape and
 * data: one block computes each sum, in a fixed order, without atomics. Skipping fully masked tiles
 * does not change results, because they would add zeros and rescale by one.
 *
 * Arrays are in device memory, 16-byte aligned; outputs overlap no other array. Calls queue on the
 * stream and allocate nothing.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_ATTENTION_ATTENTION_H
#define MILLRACE_TRAINER_OPS_CUDA_ATTENTION_ATTENTION_H

#include "base/dtype.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct attn_shape;
struct err;
struct ops;

/* Implements plan_attn of ops.h and prepares the kernels. */
int cuda_attention_plan(const struct ops *ops, const struct attn_shape *shape, struct err *err);

/* False if no kernel supports the shape. */
bool cuda_attention_supports(enum dtype type, const struct attn_shape *shape);

/* Lets the kernels for this shape use enough shared memory; call it before their first launch.
 * cudaErrorInvalidValue if the shape is not supported (also from all calls below); the device's
 * error if its shared memory is too small. */
cudaError_t cuda_attention_prepare(enum dtype type, const struct attn_shape *shape);

struct cuda_attention_fwd_arrays {
    void *out;  /* [batch * tokens, heads * head_dim] */
    float *lse; /* [batch, heads, tokens] */
    const void *qkv;
    const int32_t *row_starts;
};
cudaError_t cuda_attention_fwd(enum dtype type, const struct attn_shape *shape,
                               const struct cuda_attention_fwd_arrays *arrays, cudaStream_t stream);

struct cuda_attention_bwd_arrays {
    void *d_qkv; /* all elements are written */
    const void *d_out, *qkv;
    const void *out; /* results of the forward pass with the same qkv and row_starts */
    const float *lse;
    const int32_t *row_starts;
    float *workspace; /* cuda_attention_bwd_workspace_floats */
};
uint64_t cuda_attention_bwd_workspace_floats(const struct attn_shape *shape);
cudaError_t cuda_attention_bwd(enum dtype type, const struct attn_shape *shape,
                               const struct cuda_attention_bwd_arrays *arrays, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
