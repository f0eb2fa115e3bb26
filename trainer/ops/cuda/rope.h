/*
 * rope — rotary position embedding on a CUDA device, as defined in trainer/ops/ops.h.
 *
 * Angles are computed once, in double, into a table that the caller owns. The rotation is computed
 * in float and rounded once.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_ROPE_H
#define MILLRACE_TRAINER_OPS_CUDA_ROPE_H

#include "base/dtype.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct attn_shape;
struct rope_spec;

/* Floats of the table: {cosine, sine} per token and pair. */
static inline uint64_t cuda_rope_table_floats(uint64_t tokens, uint64_t head_dim)
{
    return tokens * head_dim;
}

/* Fills the table (device memory, 8-byte aligned): the angle of token t and pair i is t *
 * rope_frequency(spec, i, head_dim / 2). cudaErrorInvalidValue if head_dim is odd. */
cudaError_t cuda_rope_table_fill(float *table, uint64_t tokens, uint64_t head_dim,
                                 const struct rope_spec *spec, cudaStream_t stream);

/* In place; backward reverses the rotation. qkv is 16-byte aligned. The table must have been filled
 * for this head_dim and at least shape->tokens tokens. */
cudaError_t cuda_rope_rotate(enum dtype type, const struct attn_shape *shape, void *qkv,
                             const float *table, bool backward, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
