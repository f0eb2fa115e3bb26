/*
 * attention_forward — the forward pass on tensor cores, after FlashAttention-2 (Dao, 2023).
 *
 * A block has a tile of queries of one head, each of its four warps whole rows of it, and walks over the tiles of keys with an online
 * softmax: sums of exponentials relative to the largest score so far, rescaled when a larger one comes.
 *
 *     shared memory    Q | K V of this step | K V of the next, under way
 *     a step           wait for its K V; barrier: all have left the other buffer; begin the next copy;
 *                      S = Q K^T;  P = 2^(S - base);  O = O * rescale + P V
 */
#include "trainer/cuda/attention_kernels.h"
#include "trainer/cuda/attention_tile.h"

#include <float.h>

enum { FORWARD_WARPS = 4, FORWARD_THREADS = FORWARD_WARPS * WARP_THREADS };

/* Tiles by the columns that a head is padded to: what the registers of a thread hold. */
template <int COLUMNS> struct forward_tiles {
    static constexpr int row_tiles = COLUMNS <= 128 ? 2 : 1; /* of 16 queries, a warp */
    static constexpr int warp_rows = row_tiles * MMA_ROWS, queries = FORWARD_WARPS * warp_rows;
    static constexpr int keys = COLUMNS <= 128 ? 64 : 32;
    static constexpr bool holds_q = COLUMNS <= 64;
    static constexpr int step_elements = 2 * keys * COLUMNS; /* K, V */
    static constexpr int shared_elements = queries * COLUMNS + 2 * step_elements;
};

/* Of a warp. */
struct forward_queries {
    int first;
    const int32_t *starts; /* of the item's token 0, or NULL */
    struct start_bounds bounds;
};

/* Scores relative to base, in powers of two. */
template <int TILES, int COLUMNS> struct forward_sums {
    float out[TILES][COLUMNS / MMA_COLUMNS][4]; /* sums of P V */
    float base[TILES][2];                       /* the largest score so far */
    float total[TILES][2];                      /* this thread's part of the sum of P */
};

/* Reads the starts of the warp's ROWS. Returns the smallest of the block. */
template <int ROWS>
__device__ inline int forward_read_starts(struct forward_queries &queries, int tokens, int *warp_starts)
{
    int lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    bool is_row = lane < ROWS && queries.first + lane < tokens;
    int start = is_row ? queries.starts[queries.first + lane] : 0;
    queries.bounds.min = -warp_max(is_row ? -start : -INT_MAX);
    queries.bounds.max = warp_max(start);
    if (lane == 0)
        warp_starts[warp] = queries.bounds.min;
    __syncthreads();
    int smallest = warp_starts[0];
    for (int w = 1; w < FORWARD_WARPS; w++)
        smallest = warp_starts[w] < smallest ? warp_starts[w] : smallest;
    return smallest;
}

template <typename T, int COLUMNS, int TILES, int KEYS, typename Fragments>
__device__ inline void forward_scores(float (&scores)[TILES][KEYS / MMA_COLUMNS][4], const Fragments &q,
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
__device__ inline void forward_mask(float (&scores)[TILES][KEYS / MMA_COLUMNS][4],
                                    const struct attention_geometry &geometry,
                                    const struct forward_queries &queries, int first_key)
{
    int lane = threadIdx.x % WARP_THREADS;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int query = queries.first + tile * MMA_ROWS + half * 8 + lane / 4;
            struct key_span seen = geometry.seen_of(query, queries.starts);
#pragma unroll
            for (int n = 0; n < KEYS / MMA_COLUMNS; n++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    int key = first_key + n * MMA_COLUMNS + lane % 4 * 2 + i;
                    if (key < seen.first || key >= seen.end)
                        scores[tile][n][2 * half + i] = -INFINITY;
                }
        }
}

/* Scores become 2^(score * scale - base), and the sums so far relative to the new base. A row that has seen nothing yet keeps the lowest
 * base, of which its zeros stay zeros. */
template <int TILES, int KEYS, int COLUMNS>
__device__ inline void forward_softmax(float (&scores)[TILES][KEYS / MMA_COLUMNS][4],
                                       struct forward_sums<TILES, COLUMNS> &sums, float scale)
{
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float largest = -INFINITY;
#pragma unroll
            for (int n = 0; n < KEYS / MMA_COLUMNS; n++)
                largest = fmaxf(largest, fmaxf(scores[tile][n][2 * half], scores[tile][n][2 * half + 1]));
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
__device__ inline void forward_values(struct forward_sums<TILES, COLUMNS> &sums,
                                      const float (&scores)[TILES][KEYS / MMA_COLUMNS][4], const T *v_tile)
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

/* Divides by the rows' sums; lse: of the head's query 0. */
template <int TILES, int COLUMNS>
__device__ inline void forward_normalise(struct forward_sums<TILES, COLUMNS> &sums, float *lse, int first,
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

/* Of units = batch * heads. The grid has a block a unit and tile of queries. */
template <typename T, int COLUMNS>
__global__ void __launch_bounds__(FORWARD_THREADS)
    attention_forward_kernel(struct attention_geometry geometry, int units, T *out, float *lse, const T *qkv,
                             const int32_t *row_starts)
{
    using tiles = forward_tiles<COLUMNS>;
    constexpr int TILES = tiles::row_tiles, KEYS = tiles::keys;
    DYNAMIC_SHARED(T, q_tile);
    __shared__ int warp_starts[FORWARD_WARPS];
    T *kv_tiles = q_tile + tiles::queries * COLUMNS;

    int warp = threadIdx.x / WARP_THREADS;
    /* Under a causal mask the last queries see most: they come first, so that the device's last blocks are short. */
    int query_tile = tiles_of(geometry.tokens, tiles::queries) - 1 - (int)(blockIdx.x / units);
    int unit = (int)(blockIdx.x % units), batch = unit / geometry.heads, head = unit % geometry.heads;
    int kv_head = head / (geometry.heads / geometry.kv_heads);
    int first = query_tile * tiles::queries;
    uint64_t width = geometry.qkv_width();
    const T *keys = qkv + geometry.k_at(batch, kv_head); /* their values lie values_at further */
    int values_at = geometry.kv_heads * geometry.head_dim;

    struct forward_queries queries = {first + warp * tiles::warp_rows, NULL, {0, 0}};
    int first_key = 0, end_key = geometry.tokens;
    if (row_starts != NULL) {
        queries.starts = row_starts + (uint64_t)batch * geometry.tokens;
        first_key = forward_read_starts<tiles::warp_rows>(queries, geometry.tokens, warp_starts);
    }
    if (geometry.causal && first + tiles::queries < end_key)
        end_key = first + tiles::queries;
    int first_step = first_key / KEYS, end_step = tiles_of(end_key, KEYS);

    auto copy_keys = [&](int step) {
        T *target = kv_tiles + step % 2 * tiles::step_elements;
        const T *source = keys + (uint64_t)step * KEYS * width;
        int rows = geometry.tokens - step * KEYS;
        tile_copy_async<KEYS, COLUMNS, FORWARD_THREADS>(target, source, width, rows, geometry.head_dim);
        tile_copy_async<KEYS, COLUMNS, FORWARD_THREADS>(target + KEYS * COLUMNS, source + values_at, width,
                                                        rows, geometry.head_dim);
    };
    tile_copy_async<tiles::queries, COLUMNS, FORWARD_THREADS>(
        q_tile, qkv + geometry.q_at(batch, head) + first * width, width, geometry.tokens - first,
        geometry.head_dim);
    copy_keys(first_step);
    copy_async_commit();

    T *warp_q_tile = q_tile + warp * tiles::warp_rows * COLUMNS;
    struct row_fragments<T, COLUMNS, TILES, tiles::holds_q> q;
    q.rows = warp_q_tile;
    struct forward_sums<TILES, COLUMNS> sums = {};
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
        sums.base[tile][0] = sums.base[tile][1] = -FLT_MAX;

    for (int step = first_step; step < end_step; step++) {
        copy_async_wait<0>();
        __syncthreads();
        if (step == first_step)
            q.hold();
        if (step + 1 < end_step)
            copy_keys(step + 1);
        copy_async_commit();
        int key = step * KEYS, last_key = key + KEYS - 1;
        int last_query = queries.first + tiles::warp_rows - 1;
        /* What no row of this warp sees would add zeros and rescale by one. */
        if ((geometry.causal && key > last_query) || last_key < queries.bounds.min)
            continue;
        const T *k_tile = kv_tiles + step % 2 * tiles::step_elements;
        float scores[TILES][KEYS / MMA_COLUMNS][4] = {};
        forward_scores<T, COLUMNS, TILES, KEYS>(scores, q, k_tile);
        if ((geometry.causal && last_key > queries.first) || last_key >= geometry.tokens ||
            key < queries.bounds.max)
            forward_mask<TILES, KEYS>(scores, geometry, queries, key);
        forward_softmax<TILES, KEYS, COLUMNS>(scores, sums, geometry.scale * LOG2_E);
        forward_values<T, COLUMNS, TILES, KEYS>(sums, scores, k_tile + KEYS * COLUMNS);
    }

    forward_normalise(sums, lse + (uint64_t)unit * geometry.tokens, queries.first, geometry.tokens);
    store_rows<COLUMNS, TILES, COLUMNS>(
        warp_q_tile, sums.out, 1.0f,
        out + geometry.out_at(batch, head) + queries.first * geometry.out_width(), geometry.out_width(),
        geometry.tokens - queries.first, geometry.head_dim);
}

template <typename T, int COLUMNS> static cudaError_t forward_prepare()
{
    return LAUNCH_ALLOW_SHARED((attention_forward_kernel<T, COLUMNS>),
                               forward_tiles<COLUMNS>::shared_elements * sizeof(T));
}

template <typename T, int COLUMNS>
static cudaError_t forward_launch(const struct attn_shape *shape, const struct attention_forward_pass *pass,
                                  cudaStream_t stream)
{
    using tiles = forward_tiles<COLUMNS>;
    int units = (int)(shape->batch * shape->heads);
    unsigned blocks = (unsigned)units * tiles_of((int)shape->tokens, tiles::queries);
    return LAUNCH((attention_forward_kernel<T, COLUMNS>), blocks, FORWARD_THREADS,
                  tiles::shared_elements * sizeof(T), stream, attention_geometry_of(shape), units,
                  static_cast<T *>(pass->out), pass->lse, static_cast<const T *>(pass->qkv),
                  pass->row_starts);
}

cudaError_t attention_tensor_forward_prepare(enum dtype dtype, const struct attn_shape *shape)
{
    return attention_choose(dtype, shape->head_dim, [&](auto element, auto columns) {
        return forward_prepare<decltype(element), decltype(columns)::value>();
    });
}

cudaError_t attention_tensor_forward(enum dtype dtype, const struct attn_shape *shape,
                                     const struct attention_forward_pass *pass, cudaStream_t stream)
{
    return attention_choose(dtype, shape->head_dim, [&](auto element, auto columns) {
        return forward_launch<decltype(element), decltype(columns)::value>(shape, pass, stream);
    });
}
