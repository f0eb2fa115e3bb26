/*
 * attention_backward — the backward pass on tensor cores: two kernels, neither of which adds to what another block adds to.
 *
 *     of keys       a block has a tile of keys of one key-value head, and walks over the queries of all heads that read it:
 *                   S' = K Q^T;  P' = 2^(S' - lse);  dP' = V dO^T;  dS' = P' (dP' - D);  dV += P' dO;  dK += dS' Q
 *     of queries    a block has a tile of queries of one head, and walks over the keys:
 *                   S = Q K^T;   P = 2^(S - lse);    dP = dO V^T;   dS = P (dP - D);     dQ += dS K
 *
 * where ' is the transpose, so that the rows are always those of the block's own tile and P and dS come out of one product as the A of
 * the next. Seven products where five would do; in return dQ needs no atomics and the bits depend on nothing but the shape.
 *
 *     shared memory    the block's rows: K V or Q dO | streamed tile: Q dO or K V | the next, under way | their {lse, D}
 *     a step           wait for its tile; barrier: all have left the other buffer; begin the next copy; sixteen columns at a time.
 */
#include "trainer/cuda/attention_kernels.h"
#include "trainer/cuda/attention_tile.h"

/* Tiles by the columns that a head is padded to: what the registers of a thread hold. Wide heads are summed in parts, each by a block of its own. */
template <int COLUMNS, bool OF_KEYS> struct backward_tiles {
    static constexpr int warps = COLUMNS == 96 || COLUMNS == 128 ? 8 : 4, threads = warps * WARP_THREADS;
    static constexpr int row_tiles = COLUMNS <= 64 ? 2 : 1; /* of 16 rows, a warp */
    static constexpr int warp_rows = row_tiles * MMA_ROWS, rows = warps * warp_rows;
    static constexpr int streamed = COLUMNS <= 128 ? 64 : 32;
    static constexpr int out_columns = COLUMNS > 128 && OF_KEYS ? 128 : COLUMNS,
                         parts = COLUMNS / out_columns;
    static constexpr bool holds_rows = COLUMNS <= 128;
    static constexpr int step_elements = 2 * streamed * COLUMNS;
    static constexpr int shared_elements = 2 * rows * COLUMNS + 2 * step_elements;
    /* Elements of 2 bytes, then the statistics of two steps. */
    static constexpr int shared_bytes =
        shared_elements * 2 + (OF_KEYS ? 2 * streamed * (int)sizeof(float2) : 0);
    static_assert(rows <= ATTENTION_STATS_ROWS && ATTENTION_STATS_ROWS % rows == 0, "statistics are padded");
    static_assert(ATTENTION_BOUNDS_ROWS % streamed == 0 && ATTENTION_BOUNDS_ROWS % warp_rows == 0,
                  "one bound");
};

/* What is streamed next: tile `tile` of head `head` of those that the block walks over. */
struct backward_step {
    int head, tile;
};

/* Sixteen rows by sixteen columns, twice: scores and the gradient of the probabilities; then the probabilities and the gradient of
 * the scores. */
template <int TILES> struct backward_products {
    float p[TILES][2][4], d[TILES][2][4];
};

template <typename T, int COLUMNS, int TILES, typename Fragments>
__device__ inline void backward_multiply(struct backward_products<TILES> &products, const Fragments &rows,
                                         const Fragments &d_rows, const T *streamed, const T *d_streamed,
                                         int column)
{
#pragma unroll
    for (int depth = 0; depth < COLUMNS / MMA_DEPTH; depth++) {
        uint32_t a[TILES][4], b[4];
        rows.get(a, depth);
        load_b_of_rows<COLUMNS>(b, streamed, column, depth * MMA_DEPTH);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            multiply_add<T>(products.p[tile][0], a[tile], b);
            multiply_add<T>(products.p[tile][1], a[tile], b + 2);
        }
        d_rows.get(a, depth);
        load_b_of_rows<COLUMNS>(b, d_streamed, column, depth * MMA_DEPTH);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            multiply_add<T>(products.d[tile][0], a[tile], b);
            multiply_add<T>(products.d[tile][1], a[tile], b + 2);
        }
    }
}

/* Scores and gradient of probabilities at (row, column) to probability and gradient of the score, of a query that has stats. */
__device__ inline void backward_softmax(float &p, float &d, float2 stats, bool is_seen, float scale)
{
    p = is_seen ? exp2_approximate(fmaf(p, scale, -stats.x)) : 0;
    d = p * (d - stats.y);
}

/* of_rows: statistics of this thread's rows. of_columns: in shared memory, of the columns of these products. */
template <bool OF_KEYS, int TILES>
__device__ inline void
backward_softmax_all(struct backward_products<TILES> &products, const struct attention_geometry &geometry,
                     const float2 (&of_rows)[TILES][2], const float2 *of_columns, bool is_masked,
                     int first_row, int first_column, const int32_t *starts)
{
    int lane = threadIdx.x % WARP_THREADS;
    float scale = geometry.scale * LOG2_E;
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int column = n * MMA_COLUMNS + lane % 4 * 2 + i;
            float2 column_stats = OF_KEYS ? of_columns[column] : float2{0, 0};
#pragma unroll
            for (int tile = 0; tile < TILES; tile++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    bool is_seen = true;
                    if (is_masked) {
                        int row = first_row + tile * MMA_ROWS + half * 8 + lane / 4;
                        int query = OF_KEYS ? first_column + column : row;
                        int key = OF_KEYS ? row : first_column + column;
                        struct key_span seen = geometry.seen_of(query, starts);
                        is_seen = key >= seen.first && key < seen.end;
                    }
                    backward_softmax(products.p[tile][n][2 * half + i], products.d[tile][n][2 * half + i],
                                     OF_KEYS ? column_stats : of_rows[tile][half], is_seen, scale);
                }
        }
}

/* sums += A B of sixteen of B's rows: those of the streamed tile from `row` on, its columns from `column` on. */
template <typename T, int COLUMNS, int TILES, int OUT>
__device__ inline void backward_add(float (&sums)[TILES][OUT / MMA_COLUMNS][4], const uint32_t (&a)[TILES][4],
                                    const T *streamed, int row, int column)
{
#pragma unroll
    for (int n = 0; n < OUT / MMA_COLUMNS; n += 2) {
        uint32_t b[4];
        load_b_of_columns<COLUMNS>(b, streamed, row, column + n * MMA_COLUMNS);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            multiply_add<T>(sums[tile][n], a[tile], b);
            multiply_add<T>(sums[tile][n + 1], a[tile], b + 2);
        }
    }
}

/* Of units = batch * kv_heads (OF_KEYS) or batch * heads. The grid has a block a part, unit and tile of rows. */
template <typename T, int COLUMNS, bool OF_KEYS>
__global__ void __launch_bounds__((backward_tiles<COLUMNS, OF_KEYS>::threads))
    attention_backward_kernel(struct attention_geometry geometry, int units, T *d_qkv, const T *d_out,
                              const T *qkv, const float2 *stats, const struct start_bounds *bounds,
                              const int32_t *row_starts)
{
    using tiles = backward_tiles<COLUMNS, OF_KEYS>;
    constexpr int TILES = tiles::row_tiles, STREAMED = tiles::streamed, OUT = tiles::out_columns;
    DYNAMIC_SHARED(T, row_tile);
    T *d_row_tile = row_tile + tiles::rows * COLUMNS, *streamed_tiles = d_row_tile + tiles::rows * COLUMNS;
    float2 *streamed_stats = reinterpret_cast<float2 *>(row_tile + tiles::shared_elements);

    int lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    int part = (int)(blockIdx.x % tiles::parts), unit = (int)(blockIdx.x / tiles::parts % units);
    int row_tiles = tiles_of(geometry.tokens, tiles::rows), turn = (int)(blockIdx.x / tiles::parts / units);
    /* What a causal mask leaves most to comes first: the first keys, the last queries. */
    int first = (OF_KEYS ? turn : row_tiles - 1 - turn) * tiles::rows, last = first + tiles::rows - 1;
    int unit_heads = OF_KEYS ? geometry.kv_heads : geometry.heads, batch = unit / unit_heads;
    int group = geometry.heads / geometry.kv_heads;
    int head = OF_KEYS ? unit % unit_heads * group : unit % unit_heads, kv_head = head / group;
    int padded = tiles_of(geometry.tokens, ATTENTION_STATS_ROWS) * ATTENTION_STATS_ROWS;
    uint64_t width = geometry.qkv_width(), out_width = geometry.out_width();
    const float2 *item_stats = stats + (uint64_t)batch * geometry.heads * padded;
    const struct start_bounds *item_bounds =
        bounds == NULL ? NULL : bounds + (uint64_t)batch * (padded / ATTENTION_BOUNDS_ROWS);
    const int32_t *starts = row_starts == NULL ? NULL : row_starts + (uint64_t)batch * geometry.tokens;
    auto bounds_of = [&](int query) {
        return item_bounds == NULL ? start_bounds{0, 0} : item_bounds[query / ATTENTION_BOUNDS_ROWS];
    };

    /* Of the streamed rows those that the block's rows see, or that see them. */
    int heads = OF_KEYS ? group : 1, first_tile = 0, end_tile = tiles_of(geometry.tokens, STREAMED);
    if (OF_KEYS) {
        first_tile = geometry.causal ? first / STREAMED : 0;
    } else {
        int start = bounds_of(first).min;
        for (int row = first + ATTENTION_BOUNDS_ROWS; row <= last; row += ATTENTION_BOUNDS_ROWS)
            start = min(start, bounds_of(row).min);
        first_tile = start / STREAMED;
        end_tile = geometry.causal ? min(end_tile, tiles_of(last + 1, STREAMED)) : end_tile;
    }
    /* The first step from {head, tile} on; its tile is end_tile where there is none. */
    auto step_from = [&](struct backward_step step) {
        for (;;) {
            for (; step.tile < end_tile; step.tile++)
                if (!OF_KEYS || bounds_of(step.tile * STREAMED).min <= last)
                    return step;
            if (step.head + 1 >= heads)
                return step;
            step.head++;
            step.tile = first_tile;
        }
    };

    auto copy_streamed = [&](struct backward_step step, int buffer) {
        T *target = streamed_tiles + buffer * tiles::step_elements;
        int token = step.tile * STREAMED, rows = geometry.tokens - token;
        const T *source =
            qkv + (OF_KEYS ? geometry.q_at(batch, head + step.head) : geometry.k_at(batch, kv_head));
        const T *d_source =
            OF_KEYS ? d_out + geometry.out_at(batch, head + step.head) : qkv + geometry.v_at(batch, kv_head);
        uint64_t d_width = OF_KEYS ? out_width : width;
        tile_copy_async<STREAMED, COLUMNS, tiles::threads>(target, source + token * width, width, rows,
                                                           geometry.head_dim);
        tile_copy_async<STREAMED, COLUMNS, tiles::threads>(
            target + STREAMED * COLUMNS, d_source + token * d_width, d_width, rows, geometry.head_dim);
        if (OF_KEYS && threadIdx.x < STREAMED / 2) /* two a copy of 16 bytes */
            copy_async_16(streamed_stats + buffer * STREAMED + 2 * threadIdx.x,
                          item_stats + (uint64_t)(head + step.head) * padded + token + 2 * threadIdx.x, true);
    };

    const T *rows_at = qkv + (OF_KEYS ? geometry.k_at(batch, kv_head) : geometry.q_at(batch, head));
    const T *d_rows_at = OF_KEYS ? qkv + geometry.v_at(batch, kv_head) : d_out + geometry.out_at(batch, head);
    uint64_t d_rows_width = OF_KEYS ? width : out_width;
    tile_copy_async<tiles::rows, COLUMNS, tiles::threads>(row_tile, rows_at + first * width, width,
                                                          geometry.tokens - first, geometry.head_dim);
    tile_copy_async<tiles::rows, COLUMNS, tiles::threads>(d_row_tile, d_rows_at + first * d_rows_width,
                                                          d_rows_width, geometry.tokens - first,
                                                          geometry.head_dim);
    struct backward_step step = step_from({0, first_tile});
    if (step.tile < end_tile)
        copy_streamed(step, 0);
    copy_async_commit();

    int warp_first = first + warp * tiles::warp_rows, warp_last = warp_first + tiles::warp_rows - 1;
    float2 row_stats[TILES][2] = {};
    if (!OF_KEYS)
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                row_stats[tile][half] =
                    item_stats[(uint64_t)head * padded + warp_first + tile * MMA_ROWS + half * 8 + lane / 4];

    struct row_fragments<T, COLUMNS, TILES, tiles::holds_rows> rows, d_rows;
    rows.rows = row_tile + warp * tiles::warp_rows * COLUMNS;
    d_rows.rows = d_row_tile + warp * tiles::warp_rows * COLUMNS;
    float sums[TILES][OUT / MMA_COLUMNS][4] = {}; /* of dS and the streamed rows: dK or dQ */
    float d_sums[OF_KEYS ? TILES : 1][OF_KEYS ? OUT / MMA_COLUMNS : 1][4] = {}; /* of P' and dO: dV */

    copy_async_wait<0>();
    __syncthreads();
    rows.hold();
    d_rows.hold();
    for (int buffer = 0; step.tile < end_tile; buffer ^= 1) {
        struct backward_step next = step_from({step.head, step.tile + 1});
        if (next.tile < end_tile)
            copy_streamed(next, buffer ^ 1);
        copy_async_commit();
        const T *streamed = streamed_tiles + buffer * tiles::step_elements,
                *d_streamed = streamed + STREAMED * COLUMNS;
        const struct start_bounds seen_from = bounds_of(OF_KEYS ? step.tile * STREAMED : warp_first);
#pragma unroll 1
        for (int column = 0; column < STREAMED; column += MMA_DEPTH) {
            int first_column = step.tile * STREAMED + column, last_column = first_column + MMA_DEPTH - 1;
            int first_query = OF_KEYS ? first_column : warp_first,
                last_query = OF_KEYS ? last_column : warp_last;
            int first_key = OF_KEYS ? warp_first : first_column, last_key = OF_KEYS ? warp_last : last_column;
            /* What sees nothing adds zeros. */
            if ((geometry.causal && first_key > last_query) || last_key < seen_from.min)
                continue;
            bool is_masked = (geometry.causal && last_key > first_query) || last_key >= geometry.tokens ||
                             first_key < seen_from.max;
            struct backward_products<TILES> products = {};
            backward_multiply<T, COLUMNS, TILES>(products, rows, d_rows, streamed, d_streamed, column);
            backward_softmax_all<OF_KEYS, TILES>(products, geometry, row_stats,
                                                 streamed_stats + buffer * STREAMED + column, is_masked,
                                                 warp_first, first_column, starts);
            uint32_t a[TILES][4];
            if constexpr (OF_KEYS) {
#pragma unroll
                for (int tile = 0; tile < TILES; tile++)
                    pack_a<T>(a[tile], products.p[tile]);
                backward_add<T, COLUMNS, TILES, OUT>(d_sums, a, d_streamed, column, part * OUT);
            }
#pragma unroll
            for (int tile = 0; tile < TILES; tile++)
                pack_a<T>(a[tile], products.d[tile]);
            backward_add<T, COLUMNS, TILES, OUT>(sums, a, streamed, column, part * OUT);
        }
        copy_async_wait<0>();
        __syncthreads();
        step = next;
    }

    int rows_left = geometry.tokens - warp_first, columns_left = geometry.head_dim - part * OUT;
    uint64_t target = warp_first * width + part * OUT;
    store_rows<COLUMNS, TILES, OUT>(const_cast<T *>(rows.rows), sums, geometry.scale,
                                    d_qkv + (rows_at - qkv) + target, width, rows_left, columns_left);
    if constexpr (OF_KEYS)
        store_rows<COLUMNS, TILES, OUT>(const_cast<T *>(d_rows.rows), d_sums, 1.0f,
                                        d_qkv + (d_rows_at - qkv) + target, width, rows_left, columns_left);
}

template <typename T, int COLUMNS, bool OF_KEYS> static cudaError_t backward_prepare()
{
    return LAUNCH_ALLOW_SHARED((attention_backward_kernel<T, COLUMNS, OF_KEYS>),
                               (backward_tiles<COLUMNS, OF_KEYS>::shared_bytes));
}

template <typename T, int COLUMNS, bool OF_KEYS>
static cudaError_t backward_launch(const struct attn_shape *shape, const struct attention_backward_pass *pass,
                                   cudaStream_t stream)
{
    using tiles = backward_tiles<COLUMNS, OF_KEYS>;
    int units = (int)(shape->batch * (OF_KEYS ? shape->kv_heads : shape->heads));
    unsigned blocks = (unsigned)(units * tiles::parts) * tiles_of((int)shape->tokens, tiles::rows);
    return LAUNCH((attention_backward_kernel<T, COLUMNS, OF_KEYS>), blocks, tiles::threads,
                  tiles::shared_bytes, stream, attention_geometry_of(shape), units,
                  static_cast<T *>(pass->d_qkv), static_cast<const T *>(pass->d_out),
                  static_cast<const T *>(pass->qkv), pass->scratch.stats, pass->scratch.bounds,
                  pass->row_starts);
}

cudaError_t attention_tensor_backward_prepare(enum dtype dtype, const struct attn_shape *shape)
{
    return attention_choose(dtype, shape->head_dim, [&](auto element, auto columns) {
        using T = decltype(element);
        constexpr int COLUMNS = decltype(columns)::value;
        cudaError_t status = backward_prepare<T, COLUMNS, true>();
        return status != cudaSuccess ? status : backward_prepare<T, COLUMNS, false>();
    });
}

cudaError_t attention_tensor_backward(enum dtype dtype, const struct attn_shape *shape,
                                      const struct attention_backward_pass *pass, cudaStream_t stream)
{
    return attention_choose(dtype, shape->head_dim, [&](auto element, auto columns) {
        using T = decltype(element);
        constexpr int COLUMNS = decltype(columns)::value;
        cudaError_t status = backward_launch<T, COLUMNS, true>(shape, pass, stream);
        return status != cudaSuccess ? status : backward_launch<T, COLUMNS, false>(shape, pass, stream);
    });
}
