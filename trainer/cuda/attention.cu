/*
 * attention — see attention.h: which kernels run what, and how the backward pass's scratch memory is cut.
 */
#include "trainer/cuda/attention_kernels.h"

enum { ATTENTION_HEAD_MAX = 256, ATTENTION_HEAD_ALIGN = 8 /* 16 bytes, as asynchronous copies move them */ };

static bool runs_on_tensor_cores(enum dtype dtype)
{
    return dtype == DTYPE_BF16 || dtype == DTYPE_F16;
}

/* Kernels count tokens and blocks in int: the queries of all heads, padded, are as many at most. */
static bool is_countable(const struct attn_shape *shape)
{
    const uint64_t most = INT_MAX;
    if (shape->batch == 0 || shape->tokens == 0 || shape->heads == 0)
        return false;
    if (shape->batch > most || shape->heads > most / shape->batch || shape->tokens > most)
        return false;
    return attention_padded_tokens(shape->tokens) <= most / (shape->batch * shape->heads);
}

bool cuda_attn_takes(enum dtype dtype, const struct attn_shape *shape)
{
    if (!is_countable(shape) || shape->kv_heads == 0 || shape->heads % shape->kv_heads != 0)
        return false;
    if (shape->head_dim == 0 || shape->head_dim > ATTENTION_HEAD_MAX)
        return false;
    return dtype == DTYPE_F32 || (runs_on_tensor_cores(dtype) && shape->head_dim % ATTENTION_HEAD_ALIGN == 0);
}

cudaError_t cuda_attn_prepare(enum dtype dtype, const struct attn_shape *shape)
{
    if (!cuda_attn_takes(dtype, shape))
        return cudaErrorInvalidValue;
    if (!runs_on_tensor_cores(dtype))
        return attention_f32_prepare(shape);
    cudaError_t status = attention_tensor_forward_prepare(dtype, shape);
    return status != cudaSuccess ? status : attention_tensor_backward_prepare(dtype, shape);
}

cudaError_t cuda_attn_fwd(enum dtype dtype, const struct attn_shape *shape, void *out, float *lse,
                          const void *qkv, const int32_t *row_starts, cudaStream_t stream)
{
    if (!cuda_attn_takes(dtype, shape))
        return cudaErrorInvalidValue;
    const struct attention_forward_pass pass = {out, lse, qkv, row_starts};
    return runs_on_tensor_cores(dtype) ? attention_tensor_forward(dtype, shape, &pass, stream)
                                       : attention_f32_forward(shape, &pass, stream);
}

static uint64_t scratch_stats(const struct attn_shape *shape)
{
    return shape->batch * shape->heads * attention_padded_tokens(shape->tokens);
}

uint64_t cuda_attn_bwd_scratch(const struct attn_shape *shape)
{
    uint64_t bounds = shape->batch * (attention_padded_tokens(shape->tokens) / ATTENTION_BOUNDS_ROWS);
    return (scratch_stats(shape) * sizeof(float2) + bounds * sizeof(struct start_bounds)) / sizeof(float);
}

cudaError_t cuda_attn_bwd(enum dtype dtype, const struct attn_shape *shape, void *d_qkv, const void *d_out,
                          const void *qkv, const void *out, const float *lse, const int32_t *row_starts,
                          float *scratch, cudaStream_t stream)
{
    if (!cuda_attn_takes(dtype, shape))
        return cudaErrorInvalidValue;
    struct attention_scratch parts = {reinterpret_cast<float2 *>(scratch), NULL};
    if (row_starts != NULL)
        parts.bounds = reinterpret_cast<struct start_bounds *>(parts.stats + scratch_stats(shape));
    cudaError_t status = attention_stats(dtype, shape, &parts, d_out, out, lse, row_starts, stream);
    if (status != cudaSuccess)
        return status;
    const struct attention_backward_pass pass = {d_qkv, d_out, qkv, row_starts, parts};
    return runs_on_tensor_cores(dtype) ? attention_tensor_backward(dtype, shape, &pass, stream)
                                       : attention_f32_backward(shape, &pass, stream);
}
