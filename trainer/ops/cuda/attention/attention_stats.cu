/*
 * attention_stats — computes struct attention_stats for the backward pass.
 */
#include "trainer/ops/cuda/attention/attention_kernels.h"
#include "trainer/ops/cuda/dispatch.h"
#include "trainer/ops/cuda/element.h"
#include "trainer/ops/cuda/reduce.h"

/* STATS_LANES lanes share a head of a query; a warp's four heads are adjacent in memory. */
enum { STATS_THREADS = 256, STATS_LANES = 8, STATS_HEADS = STATS_THREADS / STATS_LANES };

/* Dot product summed over the lanes. PACKED: reads 16 bytes at a time. */
template <typename T, bool PACKED>
__device__ inline float stats_dot(const T *a, const T *b, int count)
{
    constexpr int elements = PACKED ? packed<T>::count : 1;
    float sum = 0;
    for (int i = (int)threadIdx.x % STATS_LANES * elements; i < count;
         i += STATS_LANES * elements) {
        if constexpr (PACKED) {
            packed<T> x = load_packed(a + i), y = load_packed(b + i);
#pragma unroll
            for (int e = 0; e < elements; e++)
                sum += to_float(x.element[e]) * to_float(y.element[e]);
        } else {
            sum += to_float(a[i]) * to_float(b[i]);
        }
    }
    for (int distance = STATS_LANES / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(FULL_MASK, sum, distance);
    return sum;
}

template <typename T, bool PACKED>
__global__ void __launch_bounds__(STATS_THREADS)
    attention_stats_kernel(struct attention_geometry geometry, int batches, float2 *stats,
                           const T *d_out, const T *out, const float *lse)
{
    unsigned padded = (unsigned)attention_padded_tokens(geometry.tokens),
             heads = (unsigned)geometry.heads;
    unsigned at = blockIdx.x * STATS_HEADS + threadIdx.x / STATS_LANES, query = at / heads;
    int head = (int)(at % heads), batch = (int)(query / padded), token = (int)(query % padded);
    bool is_token = batch < batches && token < geometry.tokens;
    uint64_t from = is_token ? geometry.out_at(batch, head) + token * geometry.out_width() : 0;
    float dot = stats_dot<T, PACKED>(d_out + from, out + from, is_token ? geometry.head_dim : 0);
    if (threadIdx.x % STATS_LANES == 0 && batch < batches) {
        uint64_t unit = (uint64_t)batch * geometry.heads + head;
        stats[unit * padded + token] =
            is_token ? float2{lse[unit * geometry.tokens + token] * LOG2_E, dot}
                     : float2{INFINITY, 0};
    }
}

/* One warp per ATTENTION_BOUNDS_ROWS queries. */
__global__ void __launch_bounds__(WARP_THREADS)
    attention_bounds_kernel(int tokens, struct start_bounds *bounds, const int32_t *row_starts)
{
    int tiles = attention_padded_tokens(tokens) / ATTENTION_BOUNDS_ROWS,
        batch = (int)blockIdx.x / tiles;
    int first = (int)blockIdx.x % tiles * ATTENTION_BOUNDS_ROWS, smallest = INT_MAX, largest = 0;
    for (int row = threadIdx.x; row < ATTENTION_BOUNDS_ROWS; row += WARP_THREADS) {
        if (first + row < tokens) {
            int start = row_starts[(uint64_t)batch * tokens + first + row];
            smallest = min(smallest, start);
            largest = max(largest, start);
        }
    }
    smallest = -warp_max(-smallest);
    largest = warp_max(largest);
    if (threadIdx.x == 0)
        bounds[blockIdx.x] = {smallest, largest};
}

template <typename T>
static cudaError_t stats_launch(const struct attn_shape *shape,
                                const struct cuda_attention_bwd_arrays *arrays, float2 *stats,
                                cudaStream_t stream)
{
    uint64_t heads = shape->batch * attention_padded_tokens((int)shape->tokens) * shape->heads;
    auto launch = [&](auto kernel) {
        return LAUNCH(kernel, block_count(heads, STATS_HEADS), STATS_THREADS, 0, stream,
                      attention_geometry_of(shape), (int)shape->batch, stats,
                      static_cast<const T *>(arrays->d_out), static_cast<const T *>(arrays->out),
                      arrays->lse);
    };
    return rows_are_aligned<T>(shape->head_dim) ? launch(attention_stats_kernel<T, true>)
                                                : launch(attention_stats_kernel<T, false>);
}

cudaError_t attention_stats_fill(enum dtype type, const struct attn_shape *shape,
                                 const struct cuda_attention_bwd_arrays *arrays,
                                 const struct attention_stats *stats, cudaStream_t stream)
{
    cudaError_t status = dispatch_type(type, [&](auto element) {
        return stats_launch<decltype(element)>(shape, arrays, stats->queries, stream);
    });
    if (status != cudaSuccess || stats->bounds == NULL)
        return status;
    unsigned blocks = (unsigned)shape->batch *
                      (attention_padded_tokens((int)shape->tokens) / ATTENTION_BOUNDS_ROWS);
    return LAUNCH(attention_bounds_kernel, blocks, WARP_THREADS, 0, stream, (int)shape->tokens,
                  stats->bounds, arrays->row_starts);
}
