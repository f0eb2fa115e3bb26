/*
 * attention_kernels — the memory layout, masks and launchers that the attention kernels share.
 * attention_launch.cu chooses among the launchers. C++ only.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_ATTENTION_ATTENTION_KERNELS_H
#define MILLRACE_TRAINER_OPS_CUDA_ATTENTION_ATTENTION_KERNELS_H

#include "trainer/ops/cuda/attention/attention.h"
#include "trainer/ops/cuda/launch.h"
#include "trainer/ops/ops.h"

#include <limits.h>
#include <math.h>

/* Softmax uses powers of two: scores are scaled, and log-sum-exps are scaled back. */
#define LOG2_E 1.44269504088896340736f
#define LN_2   0.69314718055994530942f

__host__ __device__ static inline int tile_count(int count, int tile)
{
    return (count + tile - 1) / tile;
}

/* The backward pass pads its per-query statistics to a multiple of ATTENTION_STATS_ROWS and keeps
 * the bounds of the starts for every ATTENTION_BOUNDS_ROWS queries. */
enum { ATTENTION_STATS_ROWS = 128, ATTENTION_BOUNDS_ROWS = 64 };

__host__ __device__ static inline int attention_padded_tokens(int tokens)
{
    return tile_count(tokens, ATTENTION_STATS_ROWS) * ATTENTION_STATS_ROWS;
}

/* The smallest and largest start of a group of queries. No query attends to keys before min.
 * Without the causal mask, all attend to keys from max on. */
struct start_bounds {
    int min, max;
};

struct key_span {
    int first, end;
};

/* The shape, in the form that kernels use. Offsets are in elements. */
struct attention_geometry {
    int tokens, heads, kv_heads, head_dim;
    bool causal;
    float scale;

    __device__ uint64_t qkv_width() const
    {
        return (uint64_t)(heads + 2 * kv_heads) * head_dim;
    }
    __device__ uint64_t out_width() const
    {
        return (uint64_t)heads * head_dim;
    }
    /* Offsets of token 0 of a q, k or v head in qkv, and of a head in out. */
    __device__ uint64_t q_at(int batch, int head) const
    {
        return (uint64_t)batch * tokens * qkv_width() + (uint64_t)head * head_dim;
    }
    __device__ uint64_t k_at(int batch, int kv_head) const
    {
        return q_at(batch, heads + kv_head);
    }
    __device__ uint64_t v_at(int batch, int kv_head) const
    {
        return q_at(batch, heads + kv_heads + kv_head);
    }
    __device__ uint64_t out_at(int batch, int head) const
    {
        return (uint64_t)batch * tokens * out_width() + (uint64_t)head * head_dim;
    }
    /* starts: points to the item's token 0, or NULL. Padding queries, past the last token, attend
     * to all keys. */
    __device__ struct key_span visible_keys(int query, const int32_t *starts) const
    {
        if (query >= tokens)
            return {0, tokens};
        return {starts == NULL ? 0 : starts[query], causal ? query + 1 : tokens};
    }
};

static inline struct attention_geometry attention_geometry_of(const struct attn_shape *shape)
{
    return {(int)shape->tokens,   (int)shape->heads, (int)shape->kv_heads,
            (int)shape->head_dim, shape->causal,     (float)(1.0 / sqrt((double)shape->head_dim))};
}

/* Intermediate results of the backward pass. Padding queries have an infinite log-sum-exp, hence
 * zero probabilities. */
struct attention_stats {
    float2 *queries; /* [batch, heads, padded tokens]: {log-sum-exp * log2(e), d_out . out} */
    /* [batch, padded tokens / ATTENTION_BOUNDS_ROWS]; NULL: all starts are 0 */
    struct start_bounds *bounds;
};

cudaError_t attention_stats_fill(enum dtype type, const struct attn_shape *shape,
                                 const struct cuda_attention_bwd_arrays *arrays,
                                 const struct attention_stats *stats, cudaStream_t stream);

/* BF16 and F16 on tensor cores. */
cudaError_t attention_mma_fwd_prepare(enum dtype type, const struct attn_shape *shape);
cudaError_t attention_mma_fwd(enum dtype type, const struct attn_shape *shape,
                              const struct cuda_attention_fwd_arrays *arrays, cudaStream_t stream);
cudaError_t attention_mma_bwd_prepare(enum dtype type, const struct attn_shape *shape);
cudaError_t attention_mma_bwd(enum dtype type, const struct attn_shape *shape,
                              const struct cuda_attention_bwd_arrays *arrays,
                              const struct attention_stats *stats, cudaStream_t stream);

cudaError_t attention_f32_prepare(const struct attn_shape *shape);
cudaError_t attention_f32_fwd(const struct attn_shape *shape,
                              const struct cuda_attention_fwd_arrays *arrays, cudaStream_t stream);
cudaError_t attention_f32_bwd(const struct attn_shape *shape,
                              const struct cuda_attention_bwd_arrays *arrays,
                              const struct attention_stats *stats, cudaStream_t stream);

#endif
