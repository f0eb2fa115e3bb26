/*
 * pointwise — elementwise activations, sums and conversions, as defined in ops.h.
 *
 * Types: DTYPE_F32, DTYPE_BF16, DTYPE_F16; else cudaErrorInvalidValue. Arrays are 16-byte aligned
 * in functions with a `count`. Calls queue on the stream.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_POINTWISE_H
#define MILLRACE_TRAINER_OPS_CUDA_POINTWISE_H

#include "base/dtype.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t cuda_gelu_fwd(enum dtype type, void *out, const void *x, uint64_t count,
                          cudaStream_t stream);
cudaError_t cuda_gelu_bwd(enum dtype type, void *d_x, const void *d_out, const void *x,
                          uint64_t count, cudaStream_t stream);
cudaError_t cuda_swiglu_fwd(enum dtype type, void *out, const void *gate_up, uint64_t rows,
                            uint64_t cols, cudaStream_t stream);
cudaError_t cuda_swiglu_bwd(enum dtype type, void *d_gate_up, const void *d_out,
                            const void *gate_up, uint64_t rows, uint64_t cols, cudaStream_t stream);
/* out may be a or b. */
cudaError_t cuda_add(enum dtype type, void *out, const void *a, const void *b, uint64_t count,
                     cudaStream_t stream);
cudaError_t cuda_from_f32(enum dtype type, void *out, const float *x, uint64_t count,
                          cudaStream_t stream);
/* type: DTYPE_BF16 or DTYPE_F16. out = x * scale. */
cudaError_t cuda_narrow(enum dtype type, void *out, const float *x, float scale, uint64_t count,
                        cudaStream_t stream);
cudaError_t cuda_widen(enum dtype type, float *out, const void *x, float scale, uint64_t count,
                       cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
