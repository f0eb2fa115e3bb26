/*
 * attention — attention and its backward pass on a CUDA device, as trainer/ops.h has them: memory linear in tokens.
 *
 *     cuda_attn_prepare(DTYPE_BF16, &shape)                                    once a shape and process
 *     cuda_attn_fwd(DTYPE_BF16, &shape, out, lse, qkv, starts, stream)
 *     cuda_attn_bwd(DTYPE_BF16, &shape, d_qkv, d_out, qkv, out, lse, starts, scratch, stream)
 *
 * BF16 and F16 run on tensor cores with sums in float (attention_forward.cu, attention_backward.cu); head_dim is a multiple of 8.
 * F32 runs in plain float (attention_f32.cu), slowly. head_dim is at most 256. The bits are a function of shape and data: every sum is of
 * one block, in one order, without atomics. Key tiles that no row of a query tile sees are skipped, which changes no bit: they would
 * add zeros and rescale by one.
 *
 * Pointers are device memory, 16-byte aligned, and do not overlap. A call queues its kernels on stream and returns; what the
 * kernels' running fails with is told by the stream. No call allocates.
 */
#ifndef MILLRACE_TRAINER_CUDA_ATTENTION_H
#define MILLRACE_TRAINER_CUDA_ATTENTION_H

#include "base/dtype.h"
#include "trainer/ops.h"

#include <cuda_runtime.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* False where no kernel takes such attention: what plan_attn refuses. */
bool cuda_attn_takes(enum dtype dtype, const struct attn_shape *shape);

/* Lets the kernels of this shape have their shared memory; before its first forward or backward pass. cudaErrorInvalidValue where
 * cuda_attn_takes says no; an error of the device where it has too little shared memory. */
cudaError_t cuda_attn_prepare(enum dtype dtype, const struct attn_shape *shape);

/* out: [batch * tokens, heads * head_dim] of dtype; lse: float [batch, heads, tokens]. row_starts: device memory, or NULL. */
cudaError_t cuda_attn_fwd(enum dtype dtype, const struct attn_shape *shape, void *out, float *lse,
                          const void *qkv, const int32_t *row_starts, cudaStream_t stream);

/* Floats that cuda_attn_bwd works in: linear in tokens. */
uint64_t cuda_attn_bwd_scratch(const struct attn_shape *shape);

/* Every element of d_qkv is written. out and lse are what the forward pass gave for the same qkv and row_starts. */
cudaError_t cuda_attn_bwd(enum dtype dtype, const struct attn_shape *shape, void *d_qkv, const void *d_out,
                          const void *qkv, const void *out, const float *lse, const int32_t *row_starts,
                          float *scratch, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
