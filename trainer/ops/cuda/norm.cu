/*
 * norm — see norm.h. A warp handles a row and reads it twice, for the reason in cpu/norm.inc. The
 * second read hits the nearest cache.
 */
#include "trainer/ops/cuda/norm.h"

#include "trainer/ops/cuda/columns.h"
#include "trainer/ops/cuda/dispatch.h"
#include "trainer/ops/cuda/element.h"
#include "trainer/ops/cuda/launch.h"
#include "trainer/ops/cuda/reduce.h"
#include "trainer/ops/ops.h"

enum { THREADS = 256, WARPS = THREADS / WARP_THREADS };

/* N: elements moved at a time. */
template <typename T, int N, bool LAYER>
__global__ void __launch_bounds__(THREADS)
    norm_rows(T *out, float *mean, float *rstd, const T *x, const T *weight, const T *bias,
              struct norm_shape shape)
{
    uint64_t rows = shape.rows, cols = shape.cols;
    uint64_t row = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP_THREADS;
    uint64_t lane = threadIdx.x % WARP_THREADS, step = WARP_THREADS * N;
    uint64_t end = row < rows ? cols : 0; /* warps without a row still take part in the sums */
    uint64_t offset = norm_row_offset(&shape, row);
    x += offset;
    out += offset;
    float sum = 0, squares = 0, scale = 1.0f / (float)cols;
    for (uint64_t col = lane * N; LAYER && col < end; col += step) {
        packed<T, N> p = load_packed<T, N>(x + col);
        for (int i = 0; i < N; i++)
            sum += to_float(p.element[i]);
    }
    float center = LAYER ? warp_sum(sum) * scale : 0.0f;
    for (uint64_t col = lane * N; col < end; col += step) {
        packed<T, N> p = load_packed<T, N>(x + col);
        for (int i = 0; i < N; i++) {
            float difference = to_float(p.element[i]) - center;
            squares += difference * difference;
        }
    }
    float inverse = 1.0f / sqrtf(warp_sum(squares) * scale + (float)shape.epsilon);
    for (uint64_t col = lane * N; col < end; col += step) {
        packed<T, N> p = load_packed<T, N>(x + col), w = load_packed<T, N>(weight + col), result;
        packed<T, N> b = LAYER ? load_packed<T, N>(bias + col) : w;
        for (int i = 0; i < N; i++) {
            float n = (to_float(p.element[i]) - center) * inverse * to_float(w.element[i]);
            result.element[i] = from_float<T>(LAYER ? n + to_float(b.element[i]) : n);
        }
        store_packed(out + col, result);
    }
    if (row < rows && lane == 0) {
        if (LAYER)
            mean[row] = center;
        rstd[row] = inverse;
    }
}

template <typename T, int N, bool LAYER>
static cudaError_t launch_fwd(const struct norm_shape *s, const struct cuda_norm_fwd_arrays *a,
                              cudaStream_t stream)
{
    return LAUNCH((norm_rows<T, N, LAYER>), block_count(s->rows, WARPS), THREADS, 0, stream,
                  (T *)a->out, a->mean, a->rstd, (const T *)a->x, (const T *)a->weight,
                  (const T *)a->bias, *s);
}

cudaError_t cuda_norm_fwd(enum dtype type, const struct norm_shape *shape,
                          const struct cuda_norm_fwd_arrays *arrays, cudaStream_t stream)
{
    return dispatch_type(type, [&](auto t) {
        using T = decltype(t);
        return dispatch_width<T>(shape->cols, [&](auto n) {
            return shape->kind == NORM_LAYER ? launch_fwd<T, n(), true>(shape, arrays, stream)
                                             : launch_fwd<T, n(), false>(shape, arrays, stream);
        });
    });
}

template <typename T> struct norm_bwd_kernel_arrays {
    T *d_x;
    float *partials; /* [chunks][2][cols]: of weight, of bias */
    const T *d_out, *x, *weight;
    const float *mean, *rstd;
};

/* A block handles one chunk of rows and one panel of 32 * N * PACKS columns. Its warps take rows in
 * turn; a lane sums its columns over its warp's rows. For the means over a row, a warp reads all
 * columns.
 *
 * See cpu/norm.inc for the formula. In place, a warp reads a whole row before it writes. */
template <typename T, int N, int PACKS>
__global__ void __launch_bounds__(THREADS)
    norm_bwd_rows(struct norm_bwd_kernel_arrays<T> a, struct norm_shape shape, uint64_t chunk_rows)
{
    uint64_t rows = shape.rows, cols = shape.cols;
    bool layer = shape.kind == NORM_LAYER, in_place = !a.d_out;
    constexpr int panel = WARP_THREADS * N * PACKS;
    __shared__ float totals[2][panel];
    int lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    uint64_t begin = (uint64_t)blockIdx.x * panel + (uint64_t)lane * N;
    uint64_t first = blockIdx.y * chunk_rows,
             end = first + chunk_rows < rows ? first + chunk_rows : rows;
    float d_weight[PACKS][N] = {}, d_bias[PACKS][N] = {}, scale = 1.0f / (float)cols;
    for (uint64_t row = first + warp; row < end; row += WARPS) {
        uint64_t offset = norm_row_offset(&shape, row);
        const T *x = a.x + offset, *d_out = (in_place ? a.d_x : a.d_out) + offset;
        float mean = layer ? a.mean[row] : 0.0f, rstd = a.rstd[row], g_sum = 0, gn_sum = 0;
        for (uint64_t col = (uint64_t)lane * N; col < cols; col += WARP_THREADS * N) {
            packed<T, N> p = load_packed<T, N>(x + col), d = load_packed<T, N>(d_out + col);
            packed<T, N> w = load_packed<T, N>(a.weight + col);
            for (int i = 0; i < N; i++) {
                float g = to_float(d.element[i]) * to_float(w.element[i]);
                g_sum += g;
                gn_sum += g * ((to_float(p.element[i]) - mean) * rstd);
            }
        }
        float g_mean = layer ? warp_sum(g_sum) * scale : 0.0f, gn_mean = warp_sum(gn_sum) * scale;
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            uint64_t col = begin + (uint64_t)k * WARP_THREADS * N;
            if (col >= cols)
                continue;
            packed<T, N> p = load_packed<T, N>(x + col), d = load_packed<T, N>(d_out + col);
            packed<T, N> w = load_packed<T, N>(a.weight + col);
            packed<T, N> d_x = load_packed<T, N>(a.d_x + offset + col);
#pragma unroll
            for (int i = 0; i < N; i++) {
                float n = (to_float(p.element[i]) - mean) * rstd, d_i = to_float(d.element[i]);
                float slope = rstd * (d_i * to_float(w.element[i]) - g_mean - n * gn_mean);
                d_x.element[i] = from_float<T>(in_place ? slope : to_float(d_x.element[i]) + slope);
                d_weight[k][i] += d_i * n;
                d_bias[k][i] += d_i;
            }
            store_packed(a.d_x + offset + col, d_x);
        }
    }
    for (int w = 0; w < WARPS; w++) {
        if (warp == w) {
#pragma unroll
            for (int k = 0; k < PACKS; k++) {
#pragma unroll
                for (int i = 0; i < N; i++) {
                    int at = (k * WARP_THREADS + lane) * N + i;
                    totals[0][at] = d_weight[k][i] + (w ? totals[0][at] : 0.0f);
                    totals[1][at] = d_bias[k][i] + (w ? totals[1][at] : 0.0f);
                }
            }
        }
        __syncthreads();
    }
    float *partials = a.partials + (uint64_t)blockIdx.y * 2 * cols;
    for (int at = threadIdx.x; at < panel; at += THREADS) {
        uint64_t col = (uint64_t)blockIdx.x * panel + at;
        if (col < cols) {
            partials[col] = totals[0][at];
            partials[cols + col] = totals[1][at];
        }
    }
}

uint64_t cuda_norm_bwd_workspace_floats(const struct norm_shape *shape)
{
    return cuda_columns_split(shape->rows).count * 2 * shape->cols;
}

template <typename T, int N, int PACKS>
static cudaError_t launch_bwd(const struct norm_shape *s, const struct cuda_norm_bwd_arrays *a,
                              cudaStream_t stream)
{
    struct cuda_columns_chunks chunks = cuda_columns_split(s->rows);
    const struct norm_bwd_kernel_arrays<T> arrays = {
        (T *)a->d_x, a->workspace, (const T *)a->d_out, (const T *)a->x,
            (const T *)a->weight, a->mean, a->rstd
    };
    dim3 grid(block_count(s->cols, (uint64_t)WARP_THREADS * N * PACKS), chunks.count);
    return LAUNCH((norm_bwd_rows<T, N, PACKS>), grid, THREADS, 0, stream, arrays, *s, chunks.rows);
}

/* Uses one panel if each lane then needs at most 64 sums of each kind. */
template <typename T>
static cudaError_t launch_bwd_panels(const struct norm_shape *s,
                                     const struct cuda_norm_bwd_arrays *a, cudaStream_t stream)
{
    constexpr int width = packed<T>::count;
    if (!rows_are_aligned<T>(s->cols))
        return launch_bwd<T, 1, 8>(s, a, stream);
    switch (block_count(s->cols, (uint64_t)WARP_THREADS * width)) {
    case 1:
        return launch_bwd<T, width, 1>(s, a, stream);
    case 2:
        return launch_bwd<T, width, 2>(s, a, stream);
    case 3:
        return launch_bwd<T, width, 3>(s, a, stream);
    case 4:
        return launch_bwd<T, width, 4>(s, a, stream);
    case 5:
    case 6:
        return launch_bwd<T, width, 6>(s, a, stream);
    default:
        return launch_bwd<T, width, 8>(s, a, stream);
    }
}

cudaError_t cuda_norm_bwd(enum dtype type, const struct norm_shape *shape,
                          const struct cuda_norm_bwd_arrays *arrays, bool accumulate,
                          cudaStream_t stream)
{
    static_assert(NORM_IN_PLACE_COLS_MAX <= 8 * WARP_THREADS, "one panel has all of a row");
    if (!arrays->d_out && shape->cols > NORM_IN_PLACE_COLS_MAX)
        return cudaErrorInvalidValue;
    cudaError_t status = dispatch_type(
        type, [&](auto t) { return launch_bwd_panels<decltype(t)>(shape, arrays, stream); });
    uint32_t chunks = cuda_columns_split(shape->rows).count;
    uint64_t cols = shape->cols;
    if (status == cudaSuccess)
        status = cuda_columns_fold(arrays->d_weight, arrays->workspace, chunks, 2 * cols, cols,
                                   accumulate, stream);
    if (status == cudaSuccess && shape->kind == NORM_LAYER)
        status = cuda_columns_fold(arrays->d_bias, arrays->workspace + cols, chunks, 2 * cols, cols,
                                   accumulate, stream);
    return status;
}
