/*
 * rows — see rows.h. A lane moves 16 bytes at a time, or one element if rows are not aligned.
 */
#include "trainer/ops/cuda/rows.h"

#include "trainer/ops/cuda/dispatch.h"
#include "trainer/ops/cuda/element.h"
#include "trainer/ops/cuda/launch.h"
#include "trainer/ops/cuda/reduce.h"

enum {
    THREADS = 256,
    WARPS = THREADS / WARP_THREADS,
    LOADS = 8, /* row loads in flight */
    GRID_Y_MAX = 65535,
};

/* sum += x[0 ...] + x[stride ...] + ..., in order. */
template <typename T, int N>
__device__ inline void add_rows(float (&sum)[N], const T *x, uint64_t rows, uint64_t stride)
{
    for (uint64_t row = 0; row < rows; row += LOADS) {
        packed<T, N> p[LOADS] = {};
#pragma unroll
        for (int i = 0; i < LOADS; i++)
            if (row + i < rows)
                p[i] = load_packed<T, N>(x + (row + i) * stride);
#pragma unroll
        for (int i = 0; i < LOADS; i++)
            for (int j = 0; j < N && row + i < rows; j++)
                sum[j] += to_float(p[i].element[j]);
    }
}

template <int N>
__device__ inline void store_sum(float *out, const float (&sum)[N], bool accumulate)
{
    constexpr int width = N == 1 ? 1 : packed<float>::count;
    for (int i = 0; i < N; i += width) {
        packed<float, width> p = {};
        if (accumulate)
            p = load_packed<float, width>(out + i);
        for (int j = 0; j < width; j++)
            p.element[j] = accumulate ? p.element[j] + sum[i + j] : sum[i + j];
        store_packed(out + i, p);
    }
}

__device__ inline int32_t id_of(const struct cuda_embed &embed, uint64_t row)
{
    return embed.ids[row / embed.tokens * embed.id_stride + row % embed.tokens];
}

template <typename T, int N>
__global__ void __launch_bounds__(THREADS)
    embed_rows(T *out, const T *table, const T *positions, struct cuda_embed embed)
{
    uint64_t row = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP_THREADS;
    if (row >= embed.items * embed.tokens)
        return;
    const T *from = table + (uint64_t)id_of(embed, row) * embed.cols;
    const T *position = positions + (positions ? row % embed.tokens * embed.cols : 0);
    for (uint64_t col = threadIdx.x % WARP_THREADS * N; col < embed.cols; col += WARP_THREADS * N) {
        packed<T, N> p = load_packed<T, N>(from + col);
        if (positions) {
            packed<T, N> q = load_packed<T, N>(position + col);
            for (int i = 0; i < N; i++)
                p.element[i] = from_float<T>(to_float(p.element[i]) + to_float(q.element[i]));
        }
        store_packed(out + row * embed.cols + col, p);
    }
}

cudaError_t cuda_embed_fwd(enum dtype type, const struct cuda_embed *embed, void *out,
                           const void *table, const void *positions, cudaStream_t stream)
{
    return dispatch_type(type, [&](auto t) {
        using T = decltype(t);
        return dispatch_width<T>(embed->cols, [&](auto n) {
            return LAUNCH((embed_rows<T, n()>), block_count(embed->items * embed->tokens, WARPS),
                          THREADS, 0, stream, (T *)out, (const T *)table, (const T *)positions,
                          *embed);
        });
    });
}

/* The rows sorted by id. */
struct embed_order {
    struct cuda_embed embed;
    const int32_t *rows_by_id;
    uint64_t rows;
};

__device__ inline int32_t id_at(const struct embed_order &order, uint64_t position)
{
    return id_of(order.embed, (uint64_t)order.rows_by_id[position]);
}

/* A warp sums one chunk, in one panel of 32 * N columns. Lane i handles the id of the i-th row. */
template <typename T, int N>
__global__ void __launch_bounds__(THREADS)
    embed_bwd_chunks(float *d_table, float *partials, const T *d_out, struct embed_order order,
                     bool accumulate)
{
    static_assert((int)CUDA_EMBED_CHUNK_ROWS == WARP_THREADS, "one lane per row");
    uint64_t chunk = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP_THREADS,
             cols = order.embed.cols;
    unsigned lane = threadIdx.x % WARP_THREADS;
    uint64_t position = chunk * CUDA_EMBED_CHUNK_ROWS + lane;
    uint64_t col = ((uint64_t)blockIdx.y * WARP_THREADS + lane) * N;
    bool is_row = position < order.rows;
    int32_t row = is_row ? order.rows_by_id[position] : 0, id = is_row ? id_at(order, position) : 0;
    unsigned begins =
        __ballot_sync(FULL_MASK, is_row && (position == 0 || id_at(order, position - 1) != id));
    int rows = __popc(__ballot_sync(FULL_MASK, is_row));
    bool is_owner = begins & 1;
    float sum[N] = {};
    for (int first = 0; first < rows; first += LOADS) {
        packed<T, N> p[LOADS] = {};
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            uint64_t from = (uint64_t)__shfl_sync(FULL_MASK, row, first + i);
            if (first + i < rows && col < cols)
                p[i] = load_packed<T, N>(d_out + from * cols + col);
        }
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            int at = first + i;
            uint64_t owned = (uint64_t)__shfl_sync(FULL_MASK, id, at);
            bool ends = at + 1 == rows || (at + 1 < rows && begins >> (at + 1) & 1);
            for (int j = 0; j < N; j++)
                sum[j] += to_float(p[i].element[j]);
            if (!ends)
                continue;
            if (col < cols)
                store_sum(is_owner ? d_table + owned * cols + col : partials + chunk * cols + col,
                          sum, is_owner && accumulate);
            for (int j = 0; j < N; j++)
                sum[j] = 0;
            is_owner = true;
        }
    }
}

/* If a run of ids begins in this block's chunk and continues in later ones, the block adds the
 * later sums, in one panel of 32 * N columns. */
template <int N>
__global__ void __launch_bounds__(THREADS)
    embed_bwd_fold(float *d_table, const float *partials, struct embed_order order)
{
    __shared__ float sums[WARPS][WARP_THREADS * N];
    int lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    uint64_t chunk = blockIdx.x, first = chunk * CUDA_EMBED_CHUNK_ROWS,
             next = first + CUDA_EMBED_CHUNK_ROWS;
    uint64_t cols = order.embed.cols;
    uint64_t col = ((uint64_t)blockIdx.y * WARP_THREADS + lane) * N;
    int32_t id = next < order.rows ? id_at(order, next) : 0;
    if (next >= order.rows || id_at(order, next - 1) != id ||
        (chunk > 0 && id_at(order, first - 1) == id))
        return; /* no such run; the whole block returns */
    float sum[N] = {};
    for (uint64_t begin = chunk + 1 + warp, count = WARP_THREADS; count == WARP_THREADS;
         begin += WARPS * WARP_THREADS) {
        uint64_t position = (begin + (uint64_t)lane * WARPS) * CUDA_EMBED_CHUNK_ROWS;
        bool continues = position < order.rows && id_at(order, position) == id;
        count = __popc(__ballot_sync(FULL_MASK, continues));
        if (col < cols)
            add_rows<float, N>(sum, partials + begin * cols + col, count, WARPS * cols);
    }
    for (int i = 0; i < N; i++)
        sums[warp][lane * N + i] = sum[i];
    __syncthreads();
    uint64_t column = (uint64_t)blockIdx.y * WARP_THREADS * N + threadIdx.x;
    if (threadIdx.x < WARP_THREADS * N && column < cols) {
        float total = 0;
        for (int w = 0; w < WARPS; w++)
            total += sums[w][threadIdx.x];
        d_table[(uint64_t)id * cols + column] += total;
    }
}

uint64_t cuda_embed_bwd_workspace_floats(uint64_t rows, uint64_t cols)
{
    return block_count(rows, CUDA_EMBED_CHUNK_ROWS) * cols;
}

cudaError_t cuda_embed_bwd(enum dtype type, const struct cuda_embed *embed,
                           const struct cuda_embed_bwd_arrays *arrays, uint64_t vocabulary,
                           bool accumulate, cudaStream_t stream)
{
    const struct embed_order order = {*embed, arrays->rows_by_id, embed->items * embed->tokens};
    uint32_t chunks = block_count(order.rows, CUDA_EMBED_CHUNK_ROWS);
    cudaError_t status = cudaSuccess;
    if (!accumulate)
        status =
            cudaMemsetAsync(arrays->d_table, 0, vocabulary * embed->cols * sizeof(float), stream);
    if (status == cudaSuccess)
        status = dispatch_type(type, [&](auto t) {
            using T = decltype(t);
            return dispatch_width<T>(embed->cols, [&](auto n) {
                dim3 grid(block_count(chunks, WARPS), block_count(embed->cols, WARP_THREADS * n()));
                return LAUNCH((embed_bwd_chunks<T, n()>), grid, THREADS, 0, stream, arrays->d_table,
                              arrays->workspace, (const T *)arrays->d_out, order, accumulate);
            });
        });
    if (status != cudaSuccess)
        return status;
    return dispatch_width<float>(embed->cols, [&](auto n) {
        dim3 grid(chunks, block_count(embed->cols, WARP_THREADS * n()));
        return LAUNCH((embed_bwd_fold<n()>), grid, THREADS, 0, stream, arrays->d_table,
                      (const float *)arrays->workspace, order);
    });
}

/* A thread handles N elements of a matrix, in every gridDim.y-th item. */
template <typename T, int N>
__global__ void __launch_bounds__(THREADS)
    positions_add(T *out, const T *x, const T *positions, uint64_t items, uint64_t count)
{
    uint64_t i = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    if (i >= count)
        return;
    packed<T, N> position = load_packed<T, N>(positions + i);
    for (uint64_t item = blockIdx.y; item < items; item += gridDim.y) {
        packed<T, N> p = load_packed<T, N>(x + item * count + i);
        for (int j = 0; j < N; j++)
            p.element[j] = from_float<T>(to_float(p.element[j]) + to_float(position.element[j]));
        store_packed(out + item * count + i, p);
    }
}

cudaError_t cuda_positions_fwd(enum dtype type, const struct cuda_items_shape *shape, void *out,
                               const void *x, const void *positions, cudaStream_t stream)
{
    uint64_t count = shape->rows * shape->cols;
    uint32_t layers = shape->items < GRID_Y_MAX ? (uint32_t)shape->items : (uint32_t)GRID_Y_MAX;
    return dispatch_type(type, [&](auto t) {
        using T = decltype(t);
        return dispatch_width<T>(count, [&](auto n) {
            dim3 grid(block_count(count, THREADS * n()), layers);
            return LAUNCH((positions_add<T, n()>), grid, THREADS, 0, stream, (T *)out, (const T *)x,
                          (const T *)positions, shape->items, count);
        });
    });
}

/* A thread sums N elements over all items. */
template <typename T, int N>
__global__ void __launch_bounds__(THREADS)
    sum_items(float *out, const T *x, uint64_t items, uint64_t count, bool accumulate)
{
    uint64_t i = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    if (i >= count)
        return;
    float sum[N] = {};
    add_rows<T, N>(sum, x + i, items, count);
    store_sum(out + i, sum, accumulate);
}

cudaError_t cuda_positions_bwd(enum dtype type, const struct cuda_items_shape *shape,
                               float *d_positions, const void *d_out, bool accumulate,
                               cudaStream_t stream)
{
    uint64_t count = shape->rows * shape->cols;
    return dispatch_type(type, [&](auto t) {
        using T = decltype(t);
        return dispatch_width<T>(count, [&](auto n) {
            return LAUNCH((sum_items<T, n()>), block_count(count, THREADS * n()), THREADS, 0,
                          stream, d_positions, (const T *)d_out, shape->items, count, accumulate);
        });
    });
}

/* A thread handles N columns of an item. */
template <typename T, int N>
__global__ void __launch_bounds__(THREADS)
    pool_rows(T *out, const T *x, struct cuda_items_shape shape)
{
    uint64_t i = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    if (i >= shape.items * shape.cols)
        return;
    float sum[N] = {}, share = 1.0f / (float)shape.rows;
    add_rows<T, N>(sum, x + i / shape.cols * shape.rows * shape.cols + i % shape.cols, shape.rows,
                   shape.cols);
    packed<T, N> mean;
    for (int j = 0; j < N; j++)
        mean.element[j] = from_float<T>(sum[j] * share);
    store_packed(out + i, mean);
}

cudaError_t cuda_pool_fwd(enum dtype type, const struct cuda_items_shape *shape, void *out,
                          const void *x, cudaStream_t stream)
{
    return dispatch_type(type, [&](auto t) {
        using T = decltype(t);
        return dispatch_width<T>(shape->cols, [&](auto n) {
            return LAUNCH((pool_rows<T, n()>),
                          block_count(shape->items * shape->cols, THREADS * n()), THREADS, 0,
                          stream, (T *)out, (const T *)x, *shape);
        });
    });
}

template <typename T, int N>
__global__ void __launch_bounds__(THREADS)
    pool_spread(T *d_x, const T *d_out, struct cuda_items_shape shape)
{
    uint64_t row = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP_THREADS;
    if (row >= shape.items * shape.rows)
        return;
    const T *from = d_out + row / shape.rows * shape.cols;
    float share = 1.0f / (float)shape.rows;
    for (uint64_t col = threadIdx.x % WARP_THREADS * N; col < shape.cols; col += WARP_THREADS * N) {
        packed<T, N> p = load_packed<T, N>(from + col);
        for (int i = 0; i < N; i++)
            p.element[i] = from_float<T>(to_float(p.element[i]) * share);
        store_packed(d_x + row * shape.cols + col, p);
    }
}

cudaError_t cuda_pool_bwd(enum dtype type, const struct cuda_items_shape *shape, void *d_x,
                          const void *d_out, cudaStream_t stream)
{
    return dispatch_type(type, [&](auto t) {
        using T = decltype(t);
        return dispatch_width<T>(shape->cols, [&](auto n) {
            return LAUNCH((pool_spread<T, n()>), block_count(shape->items * shape->rows, WARPS),
                          THREADS, 0, stream, (T *)d_x, (const T *)d_out, *shape);
        });
    });
}
