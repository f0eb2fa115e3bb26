/*
 * attention_launch — chooses kernels and divides the workspace; see attention.h.
 */
#include "trainer/ops/cuda/attention/attention_kernels.h"

enum { HEAD_DIM_MAX = 256, HEAD_DIM_ALIGN = 8 /* 16 bytes, the unit of asynchronous copies */ };

static bool runs_on_tensor_cores(enum dtype type)
{
    return type == DTYPE_BF16 || type == DTYPE_F16;
}

/* Kernels count the padded queries of all heads in int. */
static bool queries_fit_int(const struct attn_shape *shape)
{
    const uint64_t limit = INT_MAX;
    if (shape->batch > limit || shape->heads > limit / shape->batch ||
        shape->tokens > limit - ATTENTION_STATS_ROWS)
        return false;
    return (uint64_t)attention_padded_tokens((int)shape->tokens) <=
           limit / (shape->batch * shape->heads);
}

bool cuda_attention_supports(enum dtype type, const struct attn_shape *shape)
{
    if (!attn_shape_is_valid(shape) || !queries_fit_int(shape) || shape->head_dim > HEAD_DIM_MAX)
        return false;
    return type == DTYPE_F32 ||
           (runs_on_tensor_cores(type) && shape->head_dim % HEAD_DIM_ALIGN == 0);
}

cudaError_t cuda_attention_prepare(enum dtype type, const struct attn_shape *shape)
{
    if (!cuda_attention_supports(type, shape))
        return cudaErrorInvalidValue;
    if (!runs_on_tensor_cores(type))
        return attention_f32_prepare(shape);
    cudaError_t status = attention_mma_fwd_prepare(type, shape);
    return status != cudaSuccess ? status : attention_mma_bwd_prepare(type, shape);
}

cudaError_t cuda_attention_fwd(enum dtype type, const struct attn_shape *shape,
                               const struct cuda_attention_fwd_arrays *arrays, cudaStream_t stream)
{
    if (!cuda_attention_supports(type, shape))
        return cudaErrorInvalidValue;
    return runs_on_tensor_cores(type) ? attention_mma_fwd(type, shape, arrays, stream)
                                      : attention_f32_fwd(shape, arrays, stream);
}

/* The workspace holds the queries' statistics, then the bounds of starts. */
static uint64_t query_stats_count(const struct attn_shape *shape)
{
    return shape->batch * shape->heads * attention_padded_tokens((int)shape->tokens);
}

uint64_t cuda_attention_bwd_workspace_floats(const struct attn_shape *shape)
{
    uint64_t bounds =
        shape->batch * (attention_padded_tokens((int)shape->tokens) / ATTENTION_BOUNDS_ROWS);
    return (query_stats_count(shape) * sizeof(float2) + bounds * sizeof(struct start_bounds)) /
           sizeof(float);
}

cudaError_t cuda_attention_bwd(enum dtype type, const struct attn_shape *shape,
                               const struct cuda_attention_bwd_arrays *arrays, cudaStream_t stream)
{
    if (!cuda_attention_supports(type, shape))
        return cudaErrorInvalidValue;
    struct attention_stats stats = {reinterpret_cast<float2 *>(arrays->workspace), NULL};
    if (arrays->row_starts != NULL)
        stats.bounds =
            reinterpret_cast<struct start_bounds *>(stats.queries + query_stats_count(shape));
    cudaError_t status = attention_stats_fill(type, shape, arrays, &stats, stream);
    if (status != cudaSuccess)
        return status;
    return runs_on_tensor_cores(type) ? attention_mma_bwd(type, shape, arrays, &stats, stream)
                                      : attention_f32_bwd(shape, arrays, &stats, stream);
}
