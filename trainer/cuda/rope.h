/*
 * rope — rotary positions on a CUDA device, as trainer/ops.h has them (Su et al., "RoFormer", 2021): pairs (d, d + head_dim / 2).
 *
 * Angles are computed once, in double, into a table in device memory that the caller owns; turning is in float, rounded once.
 */
#ifndef MILLRACE_TRAINER_CUDA_ROPE_H
#define MILLRACE_TRAINER_CUDA_ROPE_H

#include "base/dtype.h"
#include "trainer/ops.h"

#include <cuda_runtime.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Floats of the table of so many tokens: {cosine, sine} a pair. */
static inline uint64_t cuda_rope_table_floats(uint64_t tokens, uint64_t head_dim)
{
    return tokens * head_dim;
}

/* Fills the table (8-byte aligned): the angle of token t and pair i is t * base^(-i / (head_dim / 2)). head_dim is even, else cudaErrorInvalidValue. */
cudaError_t cuda_rope_table(float *table, uint64_t tokens, uint64_t head_dim, double base,
                            cudaStream_t stream);

/* Turns the q and k heads of qkv in place; backward: the other way. dtype: F32, BF16 or F16. table: of at least shape->tokens tokens and of
 * this head_dim. */
cudaError_t cuda_rope(enum dtype dtype, const struct attn_shape *shape, void *qkv, const float *table,
                      bool backward, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
