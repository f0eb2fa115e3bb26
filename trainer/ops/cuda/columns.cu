/*
 * columns — see columns.h.
 */
#include "trainer/ops/cuda/columns.h"

#include "trainer/ops/cuda/dispatch.h"
#include "trainer/ops/cuda/element.h"
#include "trainer/ops/cuda/launch.h"
#include "trainer/ops/cuda/reduce.h"

enum {
    THREADS = 256,
    WARPS = THREADS / WARP_THREADS,
    FOLD_WARPS = 16,
    FOLD_THREADS = FOLD_WARPS * WARP_THREADS,
};

struct cuda_columns_chunks cuda_columns_split(uint64_t rows)
{
    uint64_t needed = (rows + COLUMNS_CHUNK_ROWS - 1) / COLUMNS_CHUNK_ROWS;
    uint64_t count = needed < (uint64_t)COLUMNS_CHUNKS_MAX ? needed : (uint64_t)COLUMNS_CHUNKS_MAX;
    struct cuda_columns_chunks chunks;
    chunks.rows = (rows + count - 1) / count;
    chunks.count = block_count(rows, chunks.rows);
    return chunks;
}

uint64_t cuda_bias_bwd_workspace_floats(uint64_t rows, uint64_t cols)
{
    return cuda_columns_split(rows).count * cols;
}

/* A block sums one chunk of rows in 32 * N columns, N per lane; its warps take rows in turn. */
template <typename T, int N>
__global__ void __launch_bounds__(THREADS)
    column_sums(float *partials, const T *x, uint64_t rows, uint64_t cols, uint64_t chunk_rows)
{
    __shared__ float sums[WARPS][WARP_THREADS * N];
    int lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    uint64_t col = ((uint64_t)blockIdx.x * WARP_THREADS + lane) * N;
    uint64_t first = blockIdx.y * chunk_rows,
             end = first + chunk_rows < rows ? first + chunk_rows : rows;
    float sum[N] = {};
    for (uint64_t row = first + warp; row < end && col < cols; row += WARPS) {
        packed<T, N> p = load_packed<T, N>(x + row * cols + col);
        for (int i = 0; i < N; i++)
            sum[i] += to_float(p.element[i]);
    }
    for (int i = 0; i < N; i++)
        sums[warp][lane * N + i] = sum[i];
    __syncthreads();
    uint64_t column = (uint64_t)blockIdx.x * WARP_THREADS * N + threadIdx.x;
    if (threadIdx.x < WARP_THREADS * N && column < cols) {
        float total = 0;
        for (int w = 0; w < WARPS; w++)
            total += sums[w][threadIdx.x];
        partials[blockIdx.y * cols + column] = total;
    }
}

/* A thread adds up N columns of a few chunks. */
template <int N>
__global__ void __launch_bounds__(THREADS) fold(float *out, const float *partials, uint32_t chunks,
                                                uint64_t stride, uint64_t cols, bool accumulate)
{
    uint64_t col = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    if (col >= cols)
        return;
    packed<float, N> sum = {};
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        packed<float, N> p = load_packed<float, N>(partials + chunk * stride + col);
        for (int i = 0; i < N; i++)
            sum.element[i] += p.element[i];
    }
    if (accumulate) {
        packed<float, N> before = load_packed<float, N>(out + col);
        for (int i = 0; i < N; i++)
            sum.element[i] = before.element[i] + sum.element[i];
    }
    store_packed(out + col, sum);
}

/* A block adds up 32 columns of many chunks; its warps take chunks in turn, because one thread per
 * column would not hide the memory latency of a narrow matrix. */
__global__ void __launch_bounds__(FOLD_THREADS)
    fold_many(float *out, const float *partials, uint32_t chunks, uint64_t stride, uint64_t cols,
              bool accumulate)
{
    __shared__ float sums[FOLD_WARPS][WARP_THREADS];
    int lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    uint64_t col = (uint64_t)blockIdx.x * WARP_THREADS + lane;
    float sum = 0;
    if (col < cols) {
#pragma unroll 8
        for (uint32_t chunk = warp; chunk < chunks; chunk += FOLD_WARPS)
            sum += partials[chunk * stride + col];
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && col < cols) {
        float total = 0;
        for (int w = 0; w < FOLD_WARPS; w++)
            total += sums[w][lane];
        out[col] = accumulate ? out[col] + total : total;
    }
}

static bool is_aligned(const float *x, uint64_t stride)
{
    return (uintptr_t)x % 16 == 0 && rows_are_aligned<float>(stride);
}

cudaError_t cuda_columns_fold(float *out, const float *partials, uint32_t chunks, uint64_t stride,
                              uint64_t cols, bool accumulate, cudaStream_t stream)
{
    constexpr int width = packed<float>::count;
    if (chunks > FOLD_WARPS)
        return LAUNCH(fold_many, block_count(cols, WARP_THREADS), FOLD_THREADS, 0, stream, out,
                      partials, chunks, stride, cols, accumulate);
    if (is_aligned(out, cols) && is_aligned(partials, stride))
        return LAUNCH((fold<width>), block_count(cols, (uint64_t)THREADS * width), THREADS, 0,
                      stream, out, partials, chunks, stride, cols, accumulate);
    return LAUNCH((fold<1>), block_count(cols, THREADS), THREADS, 0, stream, out, partials, chunks,
                  stride, cols, accumulate);
}

template <typename T, int N>
static cudaError_t launch_sums(float *partials, const T *x, uint64_t rows, uint64_t cols,
                               cudaStream_t stream)
{
    struct cuda_columns_chunks chunks = cuda_columns_split(rows);
    dim3 grid(block_count(cols, (uint64_t)WARP_THREADS * N), chunks.count);
    return LAUNCH((column_sums<T, N>), grid, THREADS, 0, stream, partials, x, rows, cols,
                  chunks.rows);
}

cudaError_t cuda_bias_bwd(enum dtype type, float *out, const void *d_out, uint64_t rows,
                          uint64_t cols, bool accumulate, float *workspace, cudaStream_t stream)
{
    cudaError_t status = dispatch_type(type, [&](auto t) {
        using T = decltype(t);
        const T *x = (const T *)d_out;
        return dispatch_width<T>(
            cols, [&](auto n) { return launch_sums<T, n()>(workspace, x, rows, cols, stream); });
    });
    if (status != cudaSuccess)
        return status;
    return cuda_columns_fold(out, workspace, cuda_columns_split(rows).count, cols, cols, accumulate,
                             stream);
}
