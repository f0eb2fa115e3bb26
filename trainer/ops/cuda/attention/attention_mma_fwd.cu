/*
 * attention_mma_fwd — the forward pass on tensor cores, after FlashAttention-2 (Dao, 2023).
 *
 * A block owns a tile of queries of one head; each of its four warps owns whole rows. It iterates
 * over the tiles of keys with an online softmax: sums are relative to the largest score so far and
 * are rescaled when a larger one appears.
 *
 *     shared memory    Q | K V of this step | K V of the next step, being copied
 *     a step           wait for its K V; barrier: all warps are done with the other buffer; start
 *                      the next copy;
 *                      S = Q K^T;  P = 2^(S - base);  O = O * rescale + P V
 */
#include "trainer/ops/cuda/attention/attention_kernels.h"
#include "trainer/ops/cuda/attention/attention_tile.h"

#include <float.h>

enum { FWD_WARPS = 4, FWD_THREADS = FWD_WARPS * WARP_THREADS };

/* Tile sizes for heads padded to COLUMNS; registers per thread limit them. */
template <int COLUMNS> struct fwd_tiles {
    static constexpr int row_tiles = COLUMNS <= 128 ? 2 : 1; /* of 16 queries, per warp */
    static constexpr int warp_rows = row_tiles * MMA_ROWS, queries = FWD_WARPS * warp_rows;
    static constexpr int keys = COLUMNS <= 128 ? 64 : 32;
    static constexpr bool holds_q = COLUMNS <= 64;
    static constexpr int step_elements = 2 * keys * COLUMNS;
    static constexpr int shared_bytes = (queries * COLUMNS + 2 * step_elements) * 2;
};

/* Sums over keys, relative to 2^base. */
template <int TILES, int COLUMNS> struct fwd_sums {
    float out[TILES][COLUMNS / MMA_COLUMNS][4];
    float base[TILES][2];  /* largest score so far */
    float total[TILES][2]; /* this thread's part of the sum of P */
};

/* Returns the bounds of the starts of ROWS queries. All lanes of the warp must call it. */
template <int ROWS>
__device__ inline struct start_bounds fwd_bounds(const int32_t *starts, int first, int tokens)
{
    int lane = threadIdx.x % WARP_THREADS;
    bool is_query = lane < ROWS && first + lane < tokens;
    int start = is_query ? starts[first + lane] : 0;
    return {-warp_max(is_query ? -start : -INT_MAX), warp_max(start)};
}

template <typename T, int COLUMNS, int TILES, int KEYS, typename Fragments>
__device__ inline void fwd_scores(float (&scores)[TILES][KEYS / MMA_COLUMNS][4], const Fragments &q,
                                  const T *k_tile)
{
#pragma unroll 4
    for (int depth = 0; depth < COLUMNS / MMA_DEPTH; depth++) {
        uint32_t a[TILES][4];
        q.get(a, depth);
#pragma unroll
        for (int n = 0; n < KEYS / MMA_COLUMNS; n += 2) {
            uint32_t b[4];
            load_b_of_rows<COLUMNS>(b, k_tile, n * MMA_COLUMNS, depth * MMA_DEPTH);
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                multiply_add<T>(scores[tile][n], a[tile], b);
                multiply_add<T>(scores[tile][n + 1], a[tile], b + 2);
            }
        }
    }
}

template <int TILES, int KEYS>
__device__ inline void fwd_mask(float (&scores)[TILES][KEYS / MMA_COLUMNS][4],
                                const struct attention_geometry &geometry, const int32_t *starts,
                                int first_query, int first_key)
{
    int lane = threadIdx.x % WARP_THREADS;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int query = first_query + tile * MMA_ROWS + half * 8 + lane / 4;
            struct key_span visible = geometry.visible_keys(query, starts);
#pragma unroll
            for (int n = 0; n < KEYS / MMA_COLUMNS; n++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    int key = first_key + n * MMA_COLUMNS + lane % 4 * 2 + i;
                    if (key < visible.first || key >= visible.end)
                        scores[tile][n][2 * half + i] = -INFINITY;
                }
        }
}

/* Replaces scores with 2^(score * scale - base) and rescales the sums to the new base. A row
 * without visible keys keeps the lowest base, so its zeros stay zero. */
template <int TILES, int KEYS, int COLUMNS>
__device__ inline void fwd_softmax(float (&scores)[TILES][KEYS / MMA_COLUMNS][4],
                                   struct fwd_sums<TILES, COLUMNS> &sums, float scale)
{
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float largest = -INFINITY;
#pragma unroll
            for (int n = 0; n < KEYS / MMA_COLUMNS; n++)
                largest =
                    fmaxf(largest, fmaxf(scores[tile][n][2 * half], scores[tile][n][2 * half + 1]));
            largest = fmaxf(largest, __shfl_xor_sync(FULL_MASK, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(FULL_MASK, largest, 2));
            float base = fmaxf(sums.base[tile][half], largest * scale);
            float rescale = exp2_approximate(sums.base[tile][half] - base), total = 0;
            sums.base[tile][half] = base;
#pragma unroll
            for (int n = 0; n < KEYS / MMA_COLUMNS; n++)
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++) {
                    scores[tile][n][i] = exp2_approximate(fmaf(scores[tile][n][i], scale, -base));
                    total += scores[tile][n][i];
                }
            sums.total[tile][half] = sums.total[tile][half] * rescale + total;
#pragma unroll
            for (int n = 0; n < COLUMNS / MMA_COLUMNS; n++) {
                sums.out[tile][n][2 * half] *= rescale;
                sums.out[tile][n][2 * half + 1] *= rescale;
            }
        }
}

template <typename T, int COLUMNS, int TILES, int KEYS>
__device__ inline void fwd_values(struct fwd_sums<TILES, COLUMNS> &sums,
                                  const float (&scores)[TILES][KEYS / MMA_COLUMNS][4],
                                  const T *v_tile)
{
#pragma unroll
    for (int depth = 0; depth < KEYS / MMA_DEPTH; depth++) {
        uint32_t a[TILES][4];
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
            pack_a<T>(a[tile], &scores[tile][2 * depth]);
#pragma unroll
        for (int n = 0; n < COLUMNS / MMA_COLUMNS; n += 2) {
            uint32_t b[4];
            load_b_of_columns<COLUMNS>(b, v_tile, depth * MMA_DEPTH, n * MMA_COLUMNS);
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                multiply_add<T>(sums.out[tile][n], a[tile], b);
                multiply_add<T>(sums.out[tile][n + 1], a[tile], b + 2);
            }
        }
    }
}

/* Divides by the rows' sums. lse: points to the head's query 0. */
template <int TILES, int COLUMNS>
__device__ inline void fwd_normalize(struct fwd_sums<TILES, COLUMNS> &sums, float *lse, int first,
                                     int tokens)
{
    int lane = threadIdx.x % WARP_THREADS;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float total = sums.total[tile][half];
            total += __shfl_xor_sync(FULL_MASK, total, 1);
            total += __shfl_xor_sync(FULL_MASK, total, 2);
            float inverse = 1 / total;
#pragma unroll
            for (int n = 0; n < COLUMNS / MMA_COLUMNS; n++) {
                sums.out[tile][n][2 * half] *= inverse;
                sums.out[tile][n][2 * half + 1] *= inverse;
            }
            int query = first + tile * MMA_ROWS + half * 8 + lane / 4;
            if (lane % 4 == 0 && query < tokens)
                lse[query] = sums.base[tile][half] * LN_2 + logf(total);
        }
}

/* Starts copying K and V of a step. k: points to the item's token 0. */
template <typename T, int COLUMNS>
__device__ inline void fwd_copy_keys(T *target, const T *k, int step,
                                     const struct attention_geometry &geometry)
{
    constexpr int KEYS = fwd_tiles<COLUMNS>::keys;
    uint64_t width = geometry.qkv_width();
    const T *source = k + (uint64_t)step * KEYS * width;
    int rows = geometry.tokens - step * KEYS, values_at = geometry.kv_heads * geometry.head_dim;
    tile_copy_async<KEYS, COLUMNS, FWD_THREADS>(target, source, width, rows, geometry.head_dim);
    tile_copy_async<KEYS, COLUMNS, FWD_THREADS>(target + KEYS * COLUMNS, source + values_at, width,
                                                rows, geometry.head_dim);
}

/* Grid: one block per tile of queries of each head. Blocks of a head run at about the same time and
 * share its keys in the cache. */
template <typename T, int COLUMNS>
__global__ void __launch_bounds__(FWD_THREADS)
    attention_mma_fwd_kernel(struct attention_geometry geometry, T *out, float *lse, const T *qkv,
                             const int32_t *row_starts)
{
    using tiles = fwd_tiles<COLUMNS>;
    constexpr int TILES = tiles::row_tiles, KEYS = tiles::keys;
    DYNAMIC_SHARED(T, q_tile);
    __shared__ struct start_bounds bounds[FWD_WARPS];
    T *kv_tiles = q_tile + tiles::queries * COLUMNS;

    int warp = threadIdx.x / WARP_THREADS;
    /* Under a causal mask the last queries have the most keys. They run first, so that the last
     * blocks to run are short. */
    int query_tiles = tile_count(geometry.tokens, tiles::queries),
        unit = (int)blockIdx.x / query_tiles;
    int first = (query_tiles - 1 - (int)blockIdx.x % query_tiles) * tiles::queries;
    int batch = unit / geometry.heads, head = unit % geometry.heads;
    int kv_head = head / (geometry.heads / geometry.kv_heads);
    uint64_t width = geometry.qkv_width(), out_width = geometry.out_width();
    const T *k = qkv + geometry.k_at(batch, kv_head);

    int warp_first = first + warp * tiles::warp_rows, first_key = INT_MAX;
    int end_key = geometry.causal ? min(first + tiles::queries, geometry.tokens) : geometry.tokens;
    const int32_t *starts =
        row_starts == NULL ? NULL : row_starts + (uint64_t)batch * geometry.tokens;
    struct start_bounds warp_bounds = {0, 0};
    if (starts != NULL)
        warp_bounds = fwd_bounds<tiles::warp_rows>(starts, warp_first, geometry.tokens);
    if (threadIdx.x % WARP_THREADS == 0)
        bounds[warp] = warp_bounds;
    __syncthreads();
    for (int w = 0; w < FWD_WARPS; w++)
        first_key = min(first_key, bounds[w].min);
    int first_step = first_key / KEYS, end_step = tile_count(end_key, KEYS);

    tile_copy_async<tiles::queries, COLUMNS, FWD_THREADS>(
        q_tile, qkv + geometry.q_at(batch, head) + first * width, width, geometry.tokens - first,
        geometry.head_dim);
    fwd_copy_keys<T, COLUMNS>(kv_tiles + first_step % 2 * tiles::step_elements, k, first_step,
                              geometry);
    copy_async_commit();

    T *warp_tile = q_tile + warp * tiles::warp_rows * COLUMNS;
    struct row_fragments<T, COLUMNS, TILES, tiles::holds_q> q;
    q.rows = warp_tile;
    struct fwd_sums<TILES, COLUMNS> sums = {};
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
        sums.base[tile][0] = sums.base[tile][1] = -FLT_MAX;

    for (int step = first_step; step < end_step; step++) {
        copy_async_wait<0>();
        __syncthreads();
        if (step == first_step)
            q.preload();
        if (step + 1 < end_step)
            fwd_copy_keys<T, COLUMNS>(kv_tiles + (step + 1) % 2 * tiles::step_elements, k, step + 1,
                                      geometry);
        copy_async_commit();
        int key = step * KEYS, last_key = key + KEYS - 1,
            last_query = warp_first + tiles::warp_rows - 1;
        /* fully masked */
        if ((geometry.causal && key > last_query) || last_key < bounds[warp].min)
            continue;
        const T *k_tile = kv_tiles + step % 2 * tiles::step_elements;
        float scores[TILES][KEYS / MMA_COLUMNS][4] = {};
        fwd_scores<T, COLUMNS, TILES, KEYS>(scores, q, k_tile);
        if ((geometry.causal && last_key > warp_first) || last_key >= geometry.tokens ||
            key < bounds[warp].max)
            fwd_mask<TILES, KEYS>(scores, geometry, starts, warp_first, key);
        fwd_softmax<TILES, KEYS, COLUMNS>(scores, sums, geometry.scale * LOG2_E);
        fwd_values<T, COLUMNS, TILES, KEYS>(sums, scores, k_tile + KEYS * COLUMNS);
    }

    fwd_normalize(sums, lse + (uint64_t)unit * geometry.tokens, warp_first, geometry.tokens);
    store_rows<COLUMNS, TILES, COLUMNS>(warp_tile, sums.out, 1.0f,
                                        out + geometry.out_at(batch, head) + warp_first * out_width,
                                        out_width, geometry.tokens - warp_first, geometry.head_dim);
}

cudaError_t attention_mma_fwd_prepare(enum dtype type, const struct attn_shape *shape)
{
    return dispatch_head(type, shape->head_dim, [&](auto element, auto columns) {
        using T = decltype(element);
        constexpr int COLUMNS = decltype(columns)::value;
        return LAUNCH_ALLOW_SHARED((attention_mma_fwd_kernel<T, COLUMNS>),
                                   fwd_tiles<COLUMNS>::shared_bytes);
    });
}

cudaError_t attention_mma_fwd(enum dtype type, const struct attn_shape *shape,
                              const struct cuda_attention_fwd_arrays *arrays, cudaStream_t stream)
{
    return dispatch_head(type, shape->head_dim, [&](auto element, auto columns) {
        using T = decltype(element);
        constexpr int COLUMNS = decltype(columns)::value;
        using tiles = fwd_tiles<COLUMNS>;
        uint64_t blocks =
            shape->batch * shape->heads * tile_count((int)shape->tokens, tiles::queries);
        return LAUNCH((attention_mma_fwd_kernel<T, COLUMNS>), (unsigned)blocks, FWD_THREADS,
                      tiles::shared_bytes, stream, attention_geometry_of(shape),
                      static_cast<T *>(arrays->out), arrays->lse,
                      static_cast<const T *>(arrays->qkv), arrays->row_starts);
    });
}
