/*
 * attention_f32 — attention in plain float, accurate but slow. The tiles, passes and order of sums
 * are those of the tensor-core kernels (attention_mma_fwd.cu, attention_mma_bwd.cu); each product
 * is a loop over shared memory.
 */
#include "trainer/ops/cuda/attention/attention_kernels.h"
#include "trainer/ops/cuda/reduce.h"

#include <float.h>
#include <type_traits>

enum { F32_THREADS = 256 };

/* Rows of a tile are head_dim + 1 floats apart, so that the elements of a column are in different
 * banks. */
template <int ROWS> struct f32_tiles {
    static constexpr int scores_stride = ROWS + 1;
    static constexpr int row_lanes = F32_THREADS / ROWS; /* lanes that share a row's softmax */
    static_assert(ATTENTION_BOUNDS_ROWS % ROWS == 0 && WARP_THREADS % row_lanes == 0,
                  "whole tiles and warps");

    __host__ __device__ static int elements(int head_dim)
    {
        return ROWS * (head_dim + 1);
    }
    static size_t bytes(int head_dim, int tiles, int scores)
    {
        return (size_t)(tiles * elements(head_dim) + scores * ROWS * scores_stride) * sizeof(float);
    }
};

enum { F32_NARROW_HEAD = 64, F32_WIDE_HEAD = 256 };

/* Wide heads use fewer rows. Six tiles fit in shared memory on compute capability 8 and later. */
template <typename Call>
static cudaError_t f32_dispatch(const struct attn_shape *shape, const Call &call)
{
    return shape->head_dim <= F32_NARROW_HEAD ? call(std::integral_constant<int, 32>())
                                              : call(std::integral_constant<int, 16>());
}

enum { F32_FWD_TILES = 4, F32_FWD_SCORES = 1, F32_BWD_TILES = 6, F32_BWD_SCORES = 2 };

template <int ROWS>
__device__ inline void f32_load(float *tile, const float *source, uint64_t stride, int rows,
                                int columns)
{
    for (int at = threadIdx.x; at < ROWS * columns; at += F32_THREADS) {
        int row = at / columns, column = at % columns;
        tile[row * (columns + 1) + column] = row < rows ? source[row * stride + column] : 0;
    }
}

/* f32_clear, f32_multiply_add and f32_store assign elements threadIdx.x + i * F32_THREADS to a
 * thread. */
template <int ROWS> __device__ inline void f32_clear(float *sums, int columns)
{
    for (int at = threadIdx.x; at < ROWS * columns; at += F32_THREADS)
        sums[at / columns * (columns + 1) + at % columns] = 0;
}

template <int ROWS>
__device__ inline void f32_store(float *target, uint64_t stride, const float *sums, float factor,
                                 int rows, int columns)
{
    for (int at = threadIdx.x; at < ROWS * columns; at += F32_THREADS) {
        int row = at / columns, column = at % columns;
        if (row < rows)
            target[row * stride + column] = sums[row * (columns + 1) + column] * factor;
    }
}

__device__ inline float f32_dot(const float *a, const float *b, int count)
{
    float sum = 0;
    for (int i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* sums[row] = sums[row] * rescale[row] + weights[row] times the streamed rows. rescale may be
 * NULL. */
template <int ROWS>
__device__ inline void f32_multiply_add(float *sums, const float *rescale, const float *weights,
                                        const float *streamed, int columns)
{
    int stride = columns + 1;
    for (int at = threadIdx.x; at < ROWS * columns; at += F32_THREADS) {
        int row = at / columns, column = at % columns;
        float sum = rescale == NULL ? sums[row * stride + column]
                                    : sums[row * stride + column] * rescale[row];
        for (int i = 0; i < ROWS; i++)
            sum +=
                weights[row * f32_tiles<ROWS>::scores_stride + i] * streamed[i * stride + column];
        sums[row * stride + column] = sum;
    }
}

/* The lanes of a row replace its scores with e^(score * scale - base) and agree on base and total.
 * Returns the factor that rescales earlier sums. */
template <int ROWS>
__device__ inline float f32_softmax(float *scores, float scale, float *base, float *total)
{
    constexpr int lanes = f32_tiles<ROWS>::row_lanes;
    float largest = -INFINITY, before = *base, sum = 0;
    int lane = threadIdx.x % lanes;
    for (int i = lane; i < ROWS; i += lanes)
        largest = fmaxf(largest, scores[i]);
    for (int distance = lanes / 2; distance > 0; distance /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(FULL_MASK, largest, distance));
    *base = fmaxf(before, largest * scale);
    for (int i = lane; i < ROWS; i += lanes) {
        scores[i] = expf(scores[i] * scale - *base);
        sum += scores[i];
    }
    for (int distance = lanes / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(FULL_MASK, sum, distance);
    float rescale = expf(before - *base);
    *total = *total * rescale + sum;
    return rescale;
}

/* Grid: one block per tile of queries of each head. */
template <int ROWS>
__global__ void __launch_bounds__(F32_THREADS)
    attention_f32_fwd_kernel(struct attention_geometry geometry, float *out, float *lse,
                             const float *qkv, const int32_t *row_starts)
{
    using tiles = f32_tiles<ROWS>;
    DYNAMIC_SHARED(float, q_tile);
    __shared__ float rescales[ROWS];
    __shared__ int first_visible;
    int columns = geometry.head_dim, elements = tiles::elements(columns);
    float *k_tile = q_tile + elements, *v_tile = k_tile + elements, *sums = v_tile + elements,
          *scores = sums + elements;

    int query_tiles = tile_count(geometry.tokens, ROWS), unit = (int)blockIdx.x / query_tiles;
    int first = (query_tiles - 1 - (int)blockIdx.x % query_tiles) * ROWS;
    int batch = unit / geometry.heads, head = unit % geometry.heads;
    int kv_head = head / (geometry.heads / geometry.kv_heads), rows_left = geometry.tokens - first;
    uint64_t width = geometry.qkv_width();
    const float *k = qkv + geometry.k_at(batch, kv_head), *v = qkv + geometry.v_at(batch, kv_head);
    const int32_t *starts =
        row_starts == NULL ? NULL : row_starts + (uint64_t)batch * geometry.tokens;
    if (threadIdx.x == 0) {
        first_visible = starts == NULL ? 0 : INT_MAX;
        for (int row = 0; starts != NULL && row < ROWS && row < rows_left; row++)
            first_visible = min(first_visible, starts[first + row]);
    }
    f32_load<ROWS>(q_tile, qkv + geometry.q_at(batch, head) + first * width, width, rows_left,
                   columns);
    f32_clear<ROWS>(sums, columns);
    __syncthreads();
    int end_key = geometry.causal ? min(first + ROWS, geometry.tokens) : geometry.tokens;

    int my_row = threadIdx.x / tiles::row_lanes, my_lane = threadIdx.x % tiles::row_lanes;
    float base = -FLT_MAX, total = 0;
    for (int key = first_visible / ROWS * ROWS; key < end_key; key += ROWS) {
        f32_load<ROWS>(k_tile, k + key * width, width, geometry.tokens - key, columns);
        f32_load<ROWS>(v_tile, v + key * width, width, geometry.tokens - key, columns);
        __syncthreads();
        for (int at = threadIdx.x; at < ROWS * ROWS; at += F32_THREADS) {
            int row = at / ROWS, column = at % ROWS;
            struct key_span visible = geometry.visible_keys(first + row, starts);
            float score =
                f32_dot(q_tile + row * (columns + 1), k_tile + column * (columns + 1), columns);
            bool is_visible = key + column >= visible.first && key + column < visible.end;
            scores[row * tiles::scores_stride + column] = is_visible ? score : -INFINITY;
        }
        __syncthreads();
        float rescale = f32_softmax<ROWS>(scores + my_row * tiles::scores_stride, geometry.scale,
                                          &base, &total);
        if (my_lane == 0)
            rescales[my_row] = rescale;
        __syncthreads();
        f32_multiply_add<ROWS>(sums, rescales, scores, v_tile, columns);
        __syncthreads();
    }
    if (my_lane == 0) {
        rescales[my_row] = 1 / total;
        if (my_row < rows_left)
            lse[(uint64_t)unit * geometry.tokens + first + my_row] = base + logf(total);
    }
    __syncthreads();
    for (int at = threadIdx.x; at < ROWS * columns; at += F32_THREADS)
        sums[at / columns * (columns + 1) + at % columns] *= rescales[at / columns];
    f32_store<ROWS>(out + geometry.out_at(batch, head) + first * geometry.out_width(),
                    geometry.out_width(), sums, 1, rows_left, columns);
}

/* Computes dK and dV (OF_KEYS) or dQ, as in attention_mma_bwd.cu. Grid: one block per tile of rows
 * of each head. */
template <int ROWS, bool OF_KEYS>
__global__ void __launch_bounds__(F32_THREADS)
    attention_f32_bwd_kernel(struct attention_geometry geometry, float *d_qkv, const float *d_out,
                             const float *qkv, const float2 *stats,
                             const struct start_bounds *bounds, const int32_t *row_starts)
{
    using tiles = f32_tiles<ROWS>;
    DYNAMIC_SHARED(float, row_tile);
    int columns = geometry.head_dim, elements = tiles::elements(columns), stride = columns + 1;
    float *d_row_tile = row_tile + elements, *streamed = d_row_tile + elements,
          *d_streamed = streamed + elements;
    /* sums: dK or dQ; d_sums: dV */
    float *sums = d_streamed + elements, *d_sums = sums + elements;
    float *p = d_sums + elements, *d = p + ROWS * tiles::scores_stride;

    int row_tiles = tile_count(geometry.tokens, ROWS), unit = (int)blockIdx.x / row_tiles;
    int tile_index = (int)blockIdx.x % row_tiles,
        first = (OF_KEYS ? tile_index : row_tiles - 1 - tile_index) * ROWS;
    int unit_heads = OF_KEYS ? geometry.kv_heads : geometry.heads, batch = unit / unit_heads;
    int group = geometry.heads / geometry.kv_heads;
    int first_head = OF_KEYS ? unit % unit_heads * group : unit % unit_heads,
        kv_head = first_head / group;
    int padded = attention_padded_tokens(geometry.tokens);
    uint64_t width = geometry.qkv_width(), out_width = geometry.out_width();
    const int32_t *starts =
        row_starts == NULL ? NULL : row_starts + (uint64_t)batch * geometry.tokens;
    const struct start_bounds *item_bounds =
        bounds == NULL ? NULL : bounds + (uint64_t)batch * (padded / ATTENTION_BOUNDS_ROWS);
    const float *k = qkv + geometry.k_at(batch, kv_head), *v = qkv + geometry.v_at(batch, kv_head);
    int rows_left = geometry.tokens - first;
    uint64_t target = OF_KEYS ? geometry.k_at(batch, kv_head) : geometry.q_at(batch, first_head);

    f32_clear<ROWS>(sums, columns);
    f32_clear<ROWS>(d_sums, columns);
    for (int head = first_head; head < first_head + (OF_KEYS ? group : 1); head++) {
        const float *q = qkv + geometry.q_at(batch, head),
                    *d_o = d_out + geometry.out_at(batch, head);
        const float2 *head_stats = stats + ((uint64_t)batch * geometry.heads + head) * padded;
        if (!OF_KEYS || head == first_head) {
            f32_load<ROWS>(row_tile, (OF_KEYS ? k : q) + first * width, width, rows_left, columns);
            f32_load<ROWS>(d_row_tile, OF_KEYS ? v + first * width : d_o + first * out_width,
                           OF_KEYS ? width : out_width, rows_left, columns);
        }
        int token = OF_KEYS && geometry.causal ? first : 0;
        int end =
            !OF_KEYS && geometry.causal ? min(first + ROWS, geometry.tokens) : geometry.tokens;
        for (; token < end; token += ROWS) {
            /* No query within the bounds attends to these keys. */
            int last_key = (OF_KEYS ? first : token) + ROWS - 1;
            if (item_bounds != NULL &&
                last_key < item_bounds[(OF_KEYS ? token : first) / ATTENTION_BOUNDS_ROWS].min)
                continue;
            f32_load<ROWS>(streamed, (OF_KEYS ? q : k) + token * width, width,
                           geometry.tokens - token, columns);
            f32_load<ROWS>(d_streamed, OF_KEYS ? d_o + token * out_width : v + token * width,
                           OF_KEYS ? out_width : width, geometry.tokens - token, columns);
            __syncthreads();
            for (int at = threadIdx.x; at < ROWS * ROWS; at += F32_THREADS) {
                int row = at / ROWS, column = at % ROWS;
                int query = OF_KEYS ? token + column : first + row,
                    key = OF_KEYS ? first + row : token + column;
                struct key_span visible = geometry.visible_keys(query, starts);
                float2 query_stats = head_stats[query];
                float score = f32_dot(row_tile + row * stride, streamed + column * stride, columns);
                float d_p =
                    f32_dot(d_row_tile + row * stride, d_streamed + column * stride, columns);
                bool is_visible = key >= visible.first && key < visible.end;
                float probability =
                    is_visible ? exp2f(score * (geometry.scale * LOG2_E) - query_stats.x) : 0;
                p[row * tiles::scores_stride + column] = probability;
                d[row * tiles::scores_stride + column] = probability * (d_p - query_stats.y);
            }
            __syncthreads();
            f32_multiply_add<ROWS>(sums, NULL, d, streamed, columns);
            if (OF_KEYS)
                f32_multiply_add<ROWS>(d_sums, NULL, p, d_streamed, columns);
            __syncthreads();
        }
    }
    f32_store<ROWS>(d_qkv + target + first * width, width, sums, geometry.scale, rows_left,
                    columns);
    if (OF_KEYS)
        f32_store<ROWS>(d_qkv + geometry.v_at(batch, kv_head) + first * width, width, d_sums, 1,
                        rows_left, columns);
}

template <int ROWS, bool OF_KEYS>
static cudaError_t f32_bwd_launch(const struct attn_shape *shape,
                                  const struct cuda_attention_bwd_arrays *arrays,
                                  const struct attention_stats *stats, cudaStream_t stream)
{
    uint64_t units = shape->batch * (OF_KEYS ? shape->kv_heads : shape->heads);
    unsigned blocks = (unsigned)(units * tile_count((int)shape->tokens, ROWS));
    size_t bytes = f32_tiles<ROWS>::bytes((int)shape->head_dim, F32_BWD_TILES, F32_BWD_SCORES);
    return LAUNCH((attention_f32_bwd_kernel<ROWS, OF_KEYS>), blocks, F32_THREADS, bytes, stream,
                  attention_geometry_of(shape), static_cast<float *>(arrays->d_qkv),
                  static_cast<const float *>(arrays->d_out),
                  static_cast<const float *>(arrays->qkv), stats->queries, stats->bounds,
                  arrays->row_starts);
}

/* The shared memory limit is a property of the kernel, so it is set for the widest head that the
 * kernel supports. */
cudaError_t attention_f32_prepare(const struct attn_shape *shape)
{
    return f32_dispatch(shape, [&](auto rows) {
        constexpr int ROWS = decltype(rows)::value;
        int head_dim = shape->head_dim <= F32_NARROW_HEAD ? F32_NARROW_HEAD : F32_WIDE_HEAD;
        size_t fwd = f32_tiles<ROWS>::bytes(head_dim, F32_FWD_TILES, F32_FWD_SCORES);
        size_t bwd = f32_tiles<ROWS>::bytes(head_dim, F32_BWD_TILES, F32_BWD_SCORES);
        cudaError_t status = LAUNCH_ALLOW_SHARED((attention_f32_fwd_kernel<ROWS>), fwd);
        if (status == cudaSuccess)
            status = LAUNCH_ALLOW_SHARED((attention_f32_bwd_kernel<ROWS, true>), bwd);
        if (status == cudaSuccess)
            status = LAUNCH_ALLOW_SHARED((attention_f32_bwd_kernel<ROWS, false>), bwd);
        return status;
    });
}

cudaError_t attention_f32_fwd(const struct attn_shape *shape,
                              const struct cuda_attention_fwd_arrays *arrays, cudaStream_t stream)
{
    return f32_dispatch(shape, [&](auto rows) {
        constexpr int ROWS = decltype(rows)::value;
        unsigned blocks =
            (unsigned)(shape->batch * shape->heads * tile_count((int)shape->tokens, ROWS));
        size_t bytes = f32_tiles<ROWS>::bytes((int)shape->head_dim, F32_FWD_TILES, F32_FWD_SCORES);
        return LAUNCH((attention_f32_fwd_kernel<ROWS>), blocks, F32_THREADS, bytes, stream,
                      attention_geometry_of(shape), static_cast<float *>(arrays->out), arrays->lse,
                      static_cast<const float *>(arrays->qkv), arrays->row_starts);
    });
}

cudaError_t attention_f32_bwd(const struct attn_shape *shape,
                              const struct cuda_attention_bwd_arrays *arrays,
                              const struct attention_stats *stats, cudaStream_t stream)
{
    return f32_dispatch(shape, [&](auto rows) {
        constexpr int ROWS = decltype(rows)::value;
        cudaError_t status = f32_bwd_launch<ROWS, true>(shape, arrays, stats, stream);
        return status != cudaSuccess ? status
                                     : f32_bwd_launch<ROWS, false>(shape, arrays, stats, stream);
    });
}
