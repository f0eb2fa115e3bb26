/*
 * attention — attention and its backward pass on a CUDA device, as trainer/ops/ops.h has them:
 * memory linear in tokens.
 *
 *     cuda_attention_prepare(DTYPE_BF16, &shape)                                    once a shape
 *     cuda_attention_fwd(DTYPE_BF16, &shape, &(struct cuda_attention_fwd_arrays){...}, stream)
 *     cuda_attention_bwd(DTYPE_BF16, &shape, &(struct cuda_attention_bwd_arrays){...}, stream)
 *
 * BF16 and F16 run on tensor cores with sums in float; head_dim is a multiple of 8. F32 runs in
 * plain float, slowly, with any head_dim. It is 256 at most. The bits are a function of shape and
 * data: every sum belongs to one block, which adds in one order, without atomics. Tiles of keys
 * that no query of a tile sees are skipped, which changes no bit: they would add zeros and rescale
 * by one.
 *
 * Arrays lie in device memory, 16-byte aligned, and those that are written overlap no other. All is
 * queued on the stream; nothing is allocated.
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

/* False where no kernel takes such attention: what plan_attn refuses. */
bool cuda_attention_takes(enum dtype type, const struct attn_shape *shape);

/* Lets the kernels of this shape have their shared memory, before their first run.
 * cudaErrorInvalidValue where cuda_attention_takes says no (as of all that follow); the device's
 * error where it has too little. */
cudaError_t cuda_attention_prepare(enum dtype type, const struct attn_shape *shape);

struct cuda_attention_fwd_arrays {
    void *out;  /* [batch * tokens, heads * head_dim] */
    float *lse; /* [batch, heads, tokens] */
    const void *qkv;
    const int32_t *row_starts; /* or NULL */
};
cudaError_t cuda_attention_fwd(enum dtype type, const struct attn_shape *shape,
                               const struct cuda_attention_fwd_arrays *arrays, cudaStream_t stream);

struct cuda_attention_bwd_arrays {
    void *d_qkv; /* all of it is written */
    const void *d_out, *qkv;
    const void *out; /* and lse: of the forward pass with the same qkv and row_starts */
    const float *lse;
    const int32_t *row_starts; /* or NULL */
    float *workspace;          /* cuda_attention_bwd_workspace floats */
};
uint64_t cuda_attention_bwd_workspace(const struct attn_shape *shape);
cudaError_t cuda_attention_bwd(enum dtype type, const struct attn_shape *shape,
                               const struct cuda_attention_bwd_arrays *arrays, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
