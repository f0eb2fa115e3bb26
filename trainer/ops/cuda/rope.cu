/*
 * rope — see rope.h.
 */
#include "trainer/ops/cuda/rope.h"

#include "trainer/ops/cuda/dispatch.h"
#include "trainer/ops/cuda/element.h"
#include "trainer/ops/cuda/launch.h"
#include "trainer/ops/ops.h"

#include <limits.h>
#include <math.h>

enum { TABLE_THREADS = 256, ROPE_THREADS = 128 };

__global__ void __launch_bounds__(TABLE_THREADS)
    rope_table_kernel(float2 *table, uint64_t count, int pairs, struct rope_spec spec)
{
    uint64_t at = (uint64_t)blockIdx.x * TABLE_THREADS + threadIdx.x;
    if (at >= count)
        return;
    double angle = (double)(at / pairs) * rope_frequency(&spec, at % pairs, pairs);
    table[at] = {(float)cos(angle), (float)sin(angle)};
}

/* PACKED: processes 16 bytes of pairs at a time. low and high are half a head apart. */
template <typename T, bool PACKED>
__device__ inline void rope_rotate_pairs(T *low, T *high, const float2 *turns, float sign)
{
    constexpr int pairs = PACKED ? packed<T>::count : 1;
    packed<T> x, y;
    if constexpr (PACKED) {
        x = load_packed(low);
        y = load_packed(high);
    } else {
        x.element[0] = *low;
        y.element[0] = *high;
    }
#pragma unroll
    for (int i = 0; i < pairs; i++) {
        float cosine = turns[i].x, sine = turns[i].y * sign;
        float a = to_float(x.element[i]), b = to_float(y.element[i]);
        x.element[i] = from_float<T>(a * cosine - b * sine);
        y.element[i] = from_float<T>(b * cosine + a * sine);
    }
    if constexpr (PACKED) {
        store_packed(low, x);
        store_packed(high, y);
    } else {
        *low = x.element[0];
        *high = y.element[0];
    }
}

/* Grid: one block per row of qkv, whose first `heads` heads are rotated. */
template <typename T, bool PACKED>
__global__ void __launch_bounds__(ROPE_THREADS)
    rope_kernel(T *qkv, const float2 *table, int tokens, int heads, int pairs, uint64_t width,
                float sign)
{
    constexpr int step = PACKED ? packed<T>::count : 1;
    int steps = pairs / step;
    T *row = qkv + blockIdx.x * width;
    const float2 *turns = table + (uint64_t)(blockIdx.x % tokens) * pairs;
    for (int at = threadIdx.x; at < heads * steps; at += ROPE_THREADS) {
        int head = at / steps, pair = at % steps * step;
        T *low = row + (uint64_t)head * 2 * pairs + pair;
        rope_rotate_pairs<T, PACKED>(low, low + pairs, turns + pair, sign);
    }
}

cudaError_t cuda_rope_table_fill(float *table, uint64_t tokens, uint64_t head_dim,
                                 const struct rope_spec *spec, cudaStream_t stream)
{
    uint64_t count = tokens * (head_dim / 2);
    if (head_dim == 0 || head_dim % 2 != 0 || head_dim > INT_MAX || tokens == 0 ||
        tokens > INT_MAX / head_dim)
        return cudaErrorInvalidValue;
    return LAUNCH(rope_table_kernel, block_count(count, TABLE_THREADS), TABLE_THREADS, 0, stream,
                  reinterpret_cast<float2 *>(table), count, (int)(head_dim / 2), *spec);
}

template <typename T>
static cudaError_t rope_launch(const struct attn_shape *shape, void *qkv, const float *table,
                               float sign, cudaStream_t stream)
{
    uint64_t width = (shape->heads + 2 * shape->kv_heads) * shape->head_dim;
    unsigned rows = (unsigned)(shape->batch * shape->tokens);
    int heads = (int)(shape->heads + shape->kv_heads), pairs = (int)(shape->head_dim / 2);
    auto launch = [&](auto kernel) {
        return LAUNCH(kernel, rows, ROPE_THREADS, 0, stream, static_cast<T *>(qkv),
                      reinterpret_cast<const float2 *>(table), (int)shape->tokens, heads, pairs,
                      width, sign);
    };
    return rows_are_aligned<T>(pairs) ? launch(rope_kernel<T, true>)
                                      : launch(rope_kernel<T, false>);
}

cudaError_t cuda_rope_rotate(enum dtype type, const struct attn_shape *shape, void *qkv,
                             const float *table, bool backward, cudaStream_t stream)
{
    uint64_t rows = shape->batch * shape->tokens;
    if (shape->head_dim == 0 || shape->head_dim % 2 != 0 || rows == 0 || rows > INT_MAX)
        return cudaErrorInvalidValue;
    float sign = backward ? -1.0f : 1.0f;
    return dispatch_type(type, [&](auto element) {
        return rope_launch<decltype(element)>(shape, qkv, table, sign, stream);
    });
}
