/*
 * attention_kernels — what the kernels of attention share: where things lie, who sees whom, and the launchers of each kind of kernel,
 * among which attention.cu chooses. C++ only.
 */
#ifndef MILLRACE_TRAINER_CUDA_ATTENTION_KERNELS_H
#define MILLRACE_TRAINER_CUDA_ATTENTION_KERNELS_H

#include "trainer/cuda/attention.h"
#include "trainer/cuda/launch.h"

#include <limits.h>
#include <math.h>

/* Scores are turned into powers of two, log-sum-exps back. */
#define LOG2_E 1.44269504088896340736f
#define LN_2   0.69314718055994530942f

/* The keys that a query sees. */
struct key_span {
    int first, end;
};

/* The shape as kernels take it. */
struct attention_geometry {
    int tokens, heads, kv_heads, head_dim;
    bool causal;
    float scale;

    __host__ __device__ uint64_t qkv_width() const
    {
        return (uint64_t)(heads + 2 * kv_heads) * head_dim;
    }
    __host__ __device__ uint64_t out_width() const
    {
        return (uint64_t)heads * head_dim;
    }
    /* Elements before token 0 of a q, k or v head in qkv, and of a head in out. */
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
    /* starts: of the item's token 0, or NULL. A query past the tokens sees what it likes. */
    __device__ struct key_span seen_of(int query, const int32_t *starts) const
    {
        int first = starts != NULL && query < tokens ? starts[query] : 0;
        return {first, causal && query < tokens ? query + 1 : tokens};
    }
};

static inline struct attention_geometry attention_geometry_of(const struct attn_shape *shape)
{
    return {(int)shape->tokens,   (int)shape->heads, (int)shape->kv_heads,
            (int)shape->head_dim, shape->causal,     (float)(1.0 / sqrt((double)shape->head_dim))};
}

/* The smallest and the largest start of some rows: keys below min are seen by none of them, keys from max on by all that the causal mask
 * lets. */
struct start_bounds {
    int min, max;
};

__host__ __device__ static inline int tiles_of(int count, int tile)
{
    return (count + tile - 1) / tile;
}

/* The backward pass first makes of each query {log-sum-exp * log2(e), d_out . out}, padded with {infinity, 0} to a multiple of
 * ATTENTION_STATS_ROWS so that padding rows have no probability, and of each so many queries the bounds of their starts. */
enum { ATTENTION_STATS_ROWS = 128, ATTENTION_BOUNDS_ROWS = 64 };

struct attention_scratch {
    float2 *stats;               /* [batch, heads, padded tokens] */
    struct start_bounds *bounds; /* [batch, padded tokens / ATTENTION_BOUNDS_ROWS]; NULL: no starts */
};

static inline uint64_t attention_padded_tokens(uint64_t tokens)
{
    return (tokens + ATTENTION_STATS_ROWS - 1) / ATTENTION_STATS_ROWS * ATTENTION_STATS_ROWS;
}

/* What a pass reads and writes; see cuda_attn_fwd and cuda_attn_bwd. */
struct attention_forward_pass {
    void *out;
    float *lse;
    const void *qkv;
    const int32_t *row_starts;
};

struct attention_backward_pass {
    void *d_qkv;
    const void *d_out, *qkv;
    const int32_t *row_starts;
    struct attention_scratch scratch; /* filled */
};

/* Fills scratch; bounds where row_starts is given. */
cudaError_t attention_stats(enum dtype dtype, const struct attn_shape *shape,
                            const struct attention_scratch *scratch, const void *d_out, const void *out,
                            const float *lse, const int32_t *row_starts, cudaStream_t stream);

/* Each kind of kernel: allows its shared memory, and launches it. */
cudaError_t attention_tensor_forward_prepare(enum dtype dtype, const struct attn_shape *shape);
cudaError_t attention_tensor_forward(enum dtype dtype, const struct attn_shape *shape,
                                     const struct attention_forward_pass *pass, cudaStream_t stream);
cudaError_t attention_tensor_backward_prepare(enum dtype dtype, const struct attn_shape *shape);
cudaError_t attention_tensor_backward(enum dtype dtype, const struct attn_shape *shape,
                                      const struct attention_backward_pass *pass, cudaStream_t stream);

cudaError_t attention_f32_prepare(const struct attn_shape *shape);
cudaError_t attention_f32_forward(const struct attn_shape *shape, const struct attention_forward_pass *pass,
                                  cudaStream_t stream);
cudaError_t attention_f32_backward(const struct attn_shape *shape, const struct attention_backward_pass *pass,
                                   cudaStream_t stream);

#endif
