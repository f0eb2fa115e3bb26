/*
 * attention_stats — what the backward pass makes of each query before all else: {log-sum-exp * log2(e), d_out . out}, and the bounds
 * of the starts of ATTENTION_BOUNDS_ROWS queries.
 */
#include "trainer/cuda/attention_kernels.h"
#include "trainer/cuda/element.h"
#include "trainer/cuda/reduce.h"

/* Eight lanes make the statistics of one head's query, four neighbouring heads a warp. */
enum { STATS_THREADS = 256, STATS_LANES = 8, STATS_QUERIES = STATS_THREADS / STATS_LANES };

/* ELEMENTS are read at a time: as many as 16 bytes hold, or one. */
template <typename T, int ELEMENTS>
__device__ inline float stats_dot(const T *a, const T *b, int count, int lane)
{
    float sum = 0;
    for (int i = lane * ELEMENTS; i < count; i += STATS_LANES * ELEMENTS) {
        if constexpr (ELEMENTS == packed<T>::count) {
            packed<T> x = load_packed(a + i), y = load_packed(b + i);
#pragma unroll
            for (int e = 0; e < ELEMENTS; e++)
                sum += to_float(x.element[e]) * to_float(y.element[e]);
        } else {
            sum += to_float(a[i]) * to_float(b[i]);
        }
    }
    for (int distance = STATS_LANES / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(FULL_MASK, sum, distance);
    return sum;
}

/* stats: [batch, heads, padded]. Of rows = batch * padded queries, all heads. */
template <typename T, int ELEMENTS>
__global__ void __launch_bounds__(STATS_THREADS)
    attention_stats_kernel(struct attention_geometry geometry, uint64_t rows, int padded, float2 *stats,
                           const T *d_out, const T *out, const float *lse)
{
    int lane = threadIdx.x % STATS_LANES;
    uint64_t at = (uint64_t)blockIdx.x * STATS_QUERIES + threadIdx.x / STATS_LANES;
    uint64_t row = at / geometry.heads, batch = row / padded;
    int head = (int)(at % geometry.heads), token = (int)(row % padded);
    bool is_token = row < rows && token < geometry.tokens;
    uint64_t from = is_token ? geometry.out_at((int)batch, head) + token * geometry.out_width() : 0;
    float dot = stats_dot<T, ELEMENTS>(d_out + from, out + from, is_token ? geometry.head_dim : 0, lane);
    uint64_t unit = batch * geometry.heads + head;
    if (lane == 0 && row < rows)
        stats[unit * padded + token] =
            is_token ? float2{lse[unit * geometry.tokens + token] * LOG2_E, dot} : float2{INFINITY, 0};
}

/* A warp a tile of queries. */
__global__ void __launch_bounds__(WARP_THREADS)
    attention_bounds_kernel(int tokens, int padded, struct start_bounds *bounds, const int32_t *row_starts)
{
    int tiles = padded / ATTENTION_BOUNDS_ROWS, batch = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    const int32_t *starts = row_starts + (uint64_t)batch * tokens;
    int smallest = INT_MAX, largest = 0;
    for (int row = threadIdx.x; row < ATTENTION_BOUNDS_ROWS; row += WARP_THREADS) {
        int token = tile * ATTENTION_BOUNDS_ROWS + row;
        if (token < tokens) {
            smallest = min(smallest, starts[token]);
            largest = max(largest, starts[token]);
        }
    }
    smallest = -warp_max(-smallest);
    largest = warp_max(largest);
    if (threadIdx.x == 0)
        bounds[blockIdx.x] = {smallest, largest};
}

template <typename T, int ELEMENTS>
static cudaError_t stats_launch(const struct attn_shape *shape, const struct attention_scratch *scratch,
                                const void *d_out, const void *out, const float *lse, cudaStream_t stream)
{
    int padded = (int)attention_padded_tokens(shape->tokens);
    uint64_t rows = shape->batch * (uint64_t)padded;
    unsigned blocks = (unsigned)((rows * shape->heads + STATS_QUERIES - 1) / STATS_QUERIES);
    return LAUNCH((attention_stats_kernel<T, ELEMENTS>), blocks, STATS_THREADS, 0, stream,
                  attention_geometry_of(shape), rows, padded, scratch->stats, static_cast<const T *>(d_out),
                  static_cast<const T *>(out), lse);
}

cudaError_t attention_stats(enum dtype dtype, const struct attn_shape *shape,
                            const struct attention_scratch *scratch, const void *d_out, const void *out,
                            const float *lse, const int32_t *row_starts, cudaStream_t stream)
{
    cudaError_t status;
    if (dtype == DTYPE_BF16)
        status = stats_launch<__nv_bfloat16, packed<__nv_bfloat16>::count>(shape, scratch, d_out, out, lse,
                                                                           stream);
    else if (dtype == DTYPE_F16)
        status = stats_launch<__half, packed<__half>::count>(shape, scratch, d_out, out, lse, stream);
    else
        status = stats_launch<float, 1>(shape, scratch, d_out, out, lse, stream);
    if (status != cudaSuccess || row_starts == NULL)
        return status;
    int padded = (int)attention_padded_tokens(shape->tokens);
    unsigned blocks = (unsigned)(shape->batch * (padded / ATTENTION_BOUNDS_ROWS));
    return LAUNCH(attention_bounds_kernel, blocks, WARP_THREADS, 0, stream, (int)shape->tokens, padded,
                  scratch->bounds, row_starts);
}
