/*
 * columns — column sums of tall matrices, for gradients of biases and norms.
 *
 * Rows are split into chunks that depend only on the shape. Each block sums one chunk; a second
 * kernel adds these partial sums in an order that depends only on their number. The bits do not
 * depend on the grid or the device.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_COLUMNS_H
#define MILLRACE_TRAINER_OPS_CUDA_COLUMNS_H

#include "base/dtype.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    COLUMNS_CHUNKS_MAX = 256,
    COLUMNS_CHUNK_ROWS = 16, /* minimum, unless there are fewer rows */
};

struct cuda_columns_chunks {
    uint32_t count;
    uint64_t rows; /* in all chunks but the last */
};
struct cuda_columns_chunks cuda_columns_split(uint64_t rows);

uint64_t cuda_bias_bwd_workspace_floats(uint64_t rows, uint64_t cols);

/* out[cols] = column sums of d_out[rows, cols], of `type` (+ out). */
cudaError_t cuda_bias_bwd(enum dtype type, float *out, const void *d_out, uint64_t rows,
                          uint64_t cols, bool accumulate, float *workspace, cudaStream_t stream);
/* out[col] = sum over chunks of partials[chunk * stride + col] (+ out[col]). */
cudaError_t cuda_columns_fold(float *out, const float *partials, uint32_t chunks, uint64_t stride,
                              uint64_t cols, bool accumulate, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
