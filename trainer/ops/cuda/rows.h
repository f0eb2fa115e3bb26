/*
 * rows — copies and sums of rows: embeddings, positions, pooling, as defined in ops.h.
 *
 * Activations and tables have the given type (DTYPE_F32, DTYPE_BF16, DTYPE_F16; else
 * cudaErrorInvalidValue); gradients of tables are float. Arrays are 16-byte aligned and do not
 * overlap; sizes are at least 1. Calls queue on the stream.
 *
 * The gradient of a table is summed without atomics. The rows, in rows_by_id order, are split into
 * chunks of CUDA_EMBED_CHUNK_ROWS. A warp sums a chunk in order, one sum per run of equal ids. A
 * run's first chunk adds its sum to the table; each later chunk writes its sum to the workspace, at
 * most one row per chunk. A second kernel adds the rows of the workspace to the table: each of
 * eight warps sums every eighth chunk in order, then the warps' sums are added in order. The bits
 * depend only on ids and shapes.
 *
 *        rows_by_id   | 3 3 3 5 5 7 7 7 | 7 7 7 7 7 7 7 7 | 7 7 8 8 8 9 9 9 |
 *        table     3     5   7                             8     9
 *        workspace                   7                 7
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_ROWS_H
#define MILLRACE_TRAINER_OPS_CUDA_ROWS_H

#include "base/dtype.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CUDA_EMBED_CHUNK_ROWS = 32 };

/* Row item * tokens + t has the id ids[item * id_stride + t]. */
struct cuda_embed {
    const int32_t *ids; /* device memory */
    uint64_t id_stride, items, tokens, cols;
};
/* positions may be NULL. */
cudaError_t cuda_embed_fwd(enum dtype type, const struct cuda_embed *embed, void *out,
                           const void *table, const void *positions, cudaStream_t stream);

struct cuda_embed_bwd_arrays {
    float *d_table;
    const void *d_out;
    const int32_t *rows_by_id;
    float *workspace; /* cuda_embed_bwd_workspace_floats */
};
uint64_t cuda_embed_bwd_workspace_floats(uint64_t rows, uint64_t cols);
/* rows < 2^31. */
cudaError_t cuda_embed_bwd(enum dtype type, const struct cuda_embed *embed,
                           const struct cuda_embed_bwd_arrays *arrays, uint64_t vocabulary,
                           bool accumulate, cudaStream_t stream);

struct cuda_items_shape {
    uint64_t items, rows, cols;
};
cudaError_t cuda_positions_fwd(enum dtype type, const struct cuda_items_shape *shape, void *out,
                               const void *x, const void *positions, cudaStream_t stream);
cudaError_t cuda_positions_bwd(enum dtype type, const struct cuda_items_shape *shape,
                               float *d_positions, const void *d_out, bool accumulate,
                               cudaStream_t stream);
cudaError_t cuda_pool_fwd(enum dtype type, const struct cuda_items_shape *shape, void *out,
                          const void *x, cudaStream_t stream);
cudaError_t cuda_pool_bwd(enum dtype type, const struct cuda_items_shape *shape, void *d_x,
                          const void *d_out, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
