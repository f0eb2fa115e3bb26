/*
 * attention_mma_bwd — the backward pass on tensor cores. There are two kernels, so that only one
 * block writes each output element.
 *
 *     of keys       a block owns a tile of keys of one key-value head and iterates over the queries
 *                   of all heads that attend to it:
 *                   S' = K Q^T;  P' = 2^(S' - lse);  dP' = V dO^T;  dS' = P' (dP' - D);
 *                   dV += P' dO;  dK += dS' Q
 *     of queries    a block owns a tile of queries of one head and iterates over the keys:
 *                   S = Q K^T;   P = 2^(S - lse);    dP = dO V^T;   dS = P (dP - D);
 *                   dQ += dS K
 *
 * ' marks the transpose. Rows belong to the block's own tile, so P and dS leave one product in the
 * A layout of the next. This takes seven products instead of five, but no atomics for dQ, and the
 * bits depend only on the shape.
 *
 *     shared memory    own rows: K V or Q dO | streamed tile: Q dO or K V | next tile, being copied
 *                      {lse, D} of the queries
 *     a step           wait for its tile; barrier: all warps are done with the other buffer; start
 *                      the next copy; process sixteen columns at a time
 */
#include "trainer/ops/cuda/attention/attention_kernels.h"
#include "trainer/ops/cuda/attention/attention_tile.h"

/* Tile sizes for heads padded to COLUMNS; registers per thread limit them. For wide heads, several
 * blocks each compute a part of the columns. */
template <int COLUMNS, bool OF_KEYS> struct bwd_tiles {
    static constexpr int warps = COLUMNS == 96 || COLUMNS == 128 ? 8 : 4,
                         threads = warps * WARP_THREADS;
    static constexpr int row_tiles = COLUMNS <= 64 ? 2 : 1; /* of 16 rows, per warp */
    static constexpr int warp_rows = row_tiles * MMA_ROWS, rows = warps * warp_rows;
    static constexpr int streamed = COLUMNS <= 128 ? 64 : 32;
    static constexpr int out_columns = COLUMNS > 128 && OF_KEYS ? 128 : COLUMNS,
                         parts = COLUMNS / out_columns;
    static constexpr bool holds_rows = COLUMNS <= 128;
    static constexpr int step_elements = 2 * streamed * COLUMNS;
    /* 16-bit elements, plus statistics for two steps */
    static constexpr int shared_bytes = (2 * rows * COLUMNS + 2 * step_elements) * 2 +
                                        (OF_KEYS ? 2 * streamed * (int)sizeof(float2) : 0);
    static_assert(rows <= ATTENTION_STATS_ROWS && ATTENTION_STATS_ROWS % rows == 0,
                  "statistics are padded");
    static_assert(ATTENTION_BOUNDS_ROWS % streamed == 0 && ATTENTION_BOUNDS_ROWS % warp_rows == 0,
                  "one bound");
};

/* The tile to stream next. */
struct bwd_step {
    int head, tile;
};

/* The block's own rows are keys and values (OF_KEYS) or queries and output gradients; it streams
 * the other pair. The prefix `d_` marks values and gradients. */
template <typename T, int COLUMNS, bool OF_KEYS> struct bwd_block {
    using tiles = bwd_tiles<COLUMNS, OF_KEYS>;
    struct attention_geometry geometry;
    const T *qkv, *d_out;
    const float2 *stats;               /* of the item, like bounds and starts */
    const struct start_bounds *bounds; /* optional, like starts */
    const int32_t *starts;
    /* Set by bwd_set_position. */
    int part = 0, batch = 0, head = 0, kv_head = 0, first = 0; /* head: first of its group */
    int heads = 0, first_tile = 0, end_tile = 0;               /* streamed range */

    __device__ struct start_bounds bounds_of(int query) const
    {
        return bounds == NULL ? start_bounds{0, 0} : bounds[query / ATTENTION_BOUNDS_ROWS];
    }

    __device__ uint64_t width() const
    {
        return geometry.qkv_width();
    }

    __device__ uint64_t d_width() const
    {
        return OF_KEYS ? geometry.qkv_width() : geometry.out_width();
    }

    /* Token 0 of the block's own rows and of their d_ counterparts. */
    __device__ const T *rows() const
    {
        return qkv + (OF_KEYS ? geometry.k_at(batch, kv_head) : geometry.q_at(batch, head));
    }

    __device__ const T *d_rows() const
    {
        return OF_KEYS ? qkv + geometry.v_at(batch, kv_head) : d_out + geometry.out_at(batch, head);
    }

    /* Returns the first step at or after `step`, with tile end_tile if there is none. Skips tiles
     * whose queries all start past the block's keys. */
    __device__ struct bwd_step find_step(struct bwd_step step) const
    {
        for (;;) {
            for (; step.tile < end_tile; step.tile++)
                if (!OF_KEYS || bounds_of(step.tile * tiles::streamed).min < first + tiles::rows)
                    return step;
            if (step.head + 1 >= heads)
                return step;
            step.head++;
            step.tile = first_tile;
        }
    }

    __device__ void copy_rows(T *tile, T *d_tile) const
    {
        int left = geometry.tokens - first;
        tile_copy_async<tiles::rows, COLUMNS, tiles::threads>(tile, rows() + first * width(),
                                                              width(), left, geometry.head_dim);
        tile_copy_async<tiles::rows, COLUMNS, tiles::threads>(d_tile, d_rows() + first * d_width(),
                                                              d_width(), left, geometry.head_dim);
    }

    __device__ void copy_step(struct bwd_step step, T *tile, float2 *stats_tile) const
    {
        int token = step.tile * tiles::streamed, left = geometry.tokens - token,
            q_head = head + step.head;
        const T *source =
            qkv + (OF_KEYS ? geometry.q_at(batch, q_head) : geometry.k_at(batch, kv_head));
        const T *d_source =
            OF_KEYS ? d_out + geometry.out_at(batch, q_head) : qkv + geometry.v_at(batch, kv_head);
        uint64_t stride = OF_KEYS ? geometry.out_width() : geometry.qkv_width();
        tile_copy_async<tiles::streamed, COLUMNS, tiles::threads>(tile, source + token * width(),
                                                                  width(), left, geometry.head_dim);
        tile_copy_async<tiles::streamed, COLUMNS, tiles::threads>(tile + tiles::streamed * COLUMNS,
                                                                  d_source + token * stride, stride,
                                                                  left, geometry.head_dim);
        int query = 2 * (int)threadIdx.x; /* two statistics are 16 bytes */
        if (OF_KEYS && query < tiles::streamed)
            copy_async_16(stats_tile + query, stats_of(q_head) + token + query, true);
    }

    __device__ const float2 *stats_of(int q_head) const
    {
        return stats + (uint64_t)q_head * attention_padded_tokens(geometry.tokens);
    }
};

/* Computes the position from blockIdx. Blocks of a head run at about the same time and share
 * streamed data in the cache. */
template <typename T, int COLUMNS, bool OF_KEYS>
__device__ inline void bwd_set_position(struct bwd_block<T, COLUMNS, OF_KEYS> &block)
{
    using tiles = bwd_tiles<COLUMNS, OF_KEYS>;
    const struct attention_geometry &geometry = block.geometry;
    int group = geometry.heads / geometry.kv_heads,
        unit_heads = OF_KEYS ? geometry.kv_heads : geometry.heads;
    int row_tiles = tile_count(geometry.tokens, tiles::rows),
        row_tile = (int)blockIdx.x / tiles::parts % row_tiles;
    int unit = (int)blockIdx.x / tiles::parts / row_tiles;
    block.part = (int)blockIdx.x % tiles::parts;
    block.batch = unit / unit_heads;
    block.head = OF_KEYS ? unit % unit_heads * group : unit % unit_heads;
    block.kv_head = block.head / group;
    /* Under a causal mask the first keys and the last queries have the most work. They run first,
     * so that the last blocks to run are short. */
    block.first = (OF_KEYS ? row_tile : row_tiles - 1 - row_tile) * tiles::rows;

    int padded = attention_padded_tokens(geometry.tokens);
    block.stats += (uint64_t)block.batch * geometry.heads * padded;
    if (block.bounds != NULL) {
        block.bounds += (uint64_t)block.batch * (padded / ATTENTION_BOUNDS_ROWS);
        block.starts += (uint64_t)block.batch * geometry.tokens;
    }

    block.heads = OF_KEYS ? group : 1;
    block.end_tile = tile_count(geometry.tokens, tiles::streamed);
    if (OF_KEYS) {
        block.first_tile = geometry.causal ? block.first / tiles::streamed : 0;
        return;
    }
    int start = INT_MAX;
    for (int row = 0; row < tiles::rows; row += ATTENTION_BOUNDS_ROWS)
        start = min(start, block.bounds_of(block.first + row).min);
    block.first_tile = start / tiles::streamed;
    if (geometry.causal)
        block.end_tile =
            min(block.end_tile, tile_count(block.first + tiles::rows, tiles::streamed));
}

/* Two 16 x 16 results: scores and gradients of the probabilities, later probabilities and gradients
 * of the scores. */
template <int TILES> struct bwd_products {
    float p[TILES][2][4], d[TILES][2][4];
};

template <typename T, int COLUMNS, int TILES, typename Fragments>
__device__ inline void bwd_multiply(struct bwd_products<TILES> &products, const Fragments &rows,
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

/* Sets masked scores to -infinity. */
template <bool OF_KEYS, int TILES>
__device__ inline void bwd_mask(struct bwd_products<TILES> &products,
                                const struct attention_geometry &geometry, const int32_t *starts,
                                int first_row, int first_column)
{
    int lane = threadIdx.x % WARP_THREADS;
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                int row = first_row + tile * MMA_ROWS + i / 2 * 8 + lane / 4;
                int column = first_column + n * MMA_COLUMNS + lane % 4 * 2 + i % 2;
                int key = OF_KEYS ? row : column;
                struct key_span visible = geometry.visible_keys(OF_KEYS ? column : row, starts);
                if (key < visible.first || key >= visible.end)
                    products.p[tile][n][i] = -INFINITY;
            }
}

/* Uses row_stats (this thread's rows) if rows are queries, else column_stats (in shared memory). */
template <bool OF_KEYS, int TILES>
__device__ inline void bwd_softmax(struct bwd_products<TILES> &products,
                                   const float2 (&row_stats)[TILES][2], const float2 *column_stats,
                                   float scale)
{
    int lane = threadIdx.x % WARP_THREADS;
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float2 column_stat =
                OF_KEYS ? column_stats[n * MMA_COLUMNS + lane % 4 * 2 + i % 2] : float2{0, 0};
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                float2 stats = OF_KEYS ? column_stat : row_stats[tile][i / 2];
                float p = exp2_approximate(fmaf(products.p[tile][n][i], scale, -stats.x));
                products.p[tile][n][i] = p;
                products.d[tile][n][i] = p * (products.d[tile][n][i] - stats.y);
            }
        }
}

/* sums += A B, where B is sixteen rows of the streamed tile, from `row` and `column` on. */
template <typename T, int COLUMNS, int TILES, int OUT>
__device__ inline void bwd_add(float (&sums)[TILES][OUT / MMA_COLUMNS][4],
                               const uint32_t (&a)[TILES][4], const T *streamed, int row,
                               int column)
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

template <typename T, int COLUMNS, bool OF_KEYS> struct bwd_warp {
    using tiles = bwd_tiles<COLUMNS, OF_KEYS>;
    static constexpr int TILES = tiles::row_tiles, OUT = tiles::out_columns;
    int first;
    struct row_fragments<T, COLUMNS, TILES, tiles::holds_rows> rows, d_rows;
    float2 stats[TILES][2];                  /* used if rows are queries */
    float sums[TILES][OUT / MMA_COLUMNS][4]; /* dS times the streamed rows: dK or dQ */
    float d_sums[OF_KEYS ? TILES : 1][OUT / MMA_COLUMNS][4]; /* P' dO: dV; OF_KEYS only */
};

/* Adds the contribution of sixteen streamed rows, from `column` on in the tile that begins at
 * `token`. start_range: bounds of the queries' starts. */
template <typename T, int COLUMNS, bool OF_KEYS>
__device__ inline void bwd_add_columns(struct bwd_warp<T, COLUMNS, OF_KEYS> &warp,
                                       const struct bwd_block<T, COLUMNS, OF_KEYS> &block,
                                       const T *streamed, const float2 *streamed_stats, int token,
                                       int column, struct start_bounds start_range)
{
    using tiles = bwd_tiles<COLUMNS, OF_KEYS>;
    constexpr int TILES = tiles::row_tiles, OUT = tiles::out_columns;
    const struct attention_geometry &geometry = block.geometry;
    int first = token + column, last = first + MMA_DEPTH - 1,
        warp_last = warp.first + tiles::warp_rows - 1;
    int first_query = OF_KEYS ? first : warp.first, last_query = OF_KEYS ? last : warp_last;
    int first_key = OF_KEYS ? warp.first : first, last_key = OF_KEYS ? warp_last : last;
    /* fully masked */
    if ((geometry.causal && first_key > last_query) || last_key < start_range.min)
        return;
    const T *d_streamed = streamed + tiles::streamed * COLUMNS;
    struct bwd_products<TILES> products = {};
    bwd_multiply<T, COLUMNS, TILES>(products, warp.rows, warp.d_rows, streamed, d_streamed, column);
    if ((geometry.causal && last_key > first_query) || last_key >= geometry.tokens ||
        first_key < start_range.max)
        bwd_mask<OF_KEYS, TILES>(products, geometry, block.starts, warp.first, first);
    bwd_softmax<OF_KEYS, TILES>(products, warp.stats, streamed_stats + column,
                                geometry.scale * LOG2_E);
    uint32_t a[TILES][4];
    if constexpr (OF_KEYS) {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
            pack_a<T>(a[tile], products.p[tile]);
        bwd_add<T, COLUMNS, TILES, OUT>(warp.d_sums, a, d_streamed, column, block.part * OUT);
    }
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
        pack_a<T>(a[tile], products.d[tile]);
    bwd_add<T, COLUMNS, TILES, OUT>(warp.sums, a, streamed, column, block.part * OUT);
}

/* Grid: one block per part of each row tile of each key-value head (OF_KEYS) or query head. */
template <typename T, int COLUMNS, bool OF_KEYS>
__global__ void __launch_bounds__((bwd_tiles<COLUMNS, OF_KEYS>::threads))
    attention_mma_bwd_kernel(struct attention_geometry geometry, T *d_qkv, const T *d_out,
                             const T *qkv, const float2 *stats, const struct start_bounds *bounds,
                             const int32_t *row_starts)
{
    using tiles = bwd_tiles<COLUMNS, OF_KEYS>;
    constexpr int TILES = tiles::row_tiles, STREAMED = tiles::streamed, OUT = tiles::out_columns;
    DYNAMIC_SHARED(T, row_tile);
    T *d_row_tile = row_tile + tiles::rows * COLUMNS,
      *streamed_tiles = d_row_tile + tiles::rows * COLUMNS;
    float2 *streamed_stats = reinterpret_cast<float2 *>(streamed_tiles + 2 * tiles::step_elements);

    struct bwd_block<T, COLUMNS, OF_KEYS> block = {
        geometry, qkv, d_out, stats, bounds, row_starts
    };
    bwd_set_position(block);
    block.copy_rows(row_tile, d_row_tile);
    struct bwd_step step = block.find_step({0, block.first_tile});
    if (step.tile < block.end_tile)
        block.copy_step(step, streamed_tiles, streamed_stats);
    copy_async_commit();

    int lane = threadIdx.x % WARP_THREADS,
        warp_row = (int)threadIdx.x / WARP_THREADS * tiles::warp_rows;
    T *warp_tile = row_tile + warp_row * COLUMNS, *d_warp_tile = d_row_tile + warp_row * COLUMNS;
    struct bwd_warp<T, COLUMNS, OF_KEYS> warp = {};
    warp.first = block.first + warp_row;
    warp.rows.rows = warp_tile;
    warp.d_rows.rows = d_warp_tile;
    if (!OF_KEYS)
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                warp.stats[tile][half] =
                    block.stats_of(block.head)[warp.first + tile * MMA_ROWS + half * 8 + lane / 4];

    copy_async_wait<0>();
    __syncthreads();
    warp.rows.preload();
    warp.d_rows.preload();
    for (int buffer = 0; step.tile < block.end_tile; buffer ^= 1) {
        struct bwd_step next = block.find_step({step.head, step.tile + 1});
        if (next.tile < block.end_tile)
            block.copy_step(next, streamed_tiles + (buffer ^ 1) * tiles::step_elements,
                            streamed_stats + (buffer ^ 1) * STREAMED);
        copy_async_commit();
        int token = step.tile * STREAMED;
        const struct start_bounds start_range = block.bounds_of(OF_KEYS ? token : warp.first);
#pragma unroll 1
        for (int column = 0; column < STREAMED; column += MMA_DEPTH)
            bwd_add_columns(warp, block, streamed_tiles + buffer * tiles::step_elements,
                            streamed_stats + buffer * STREAMED, token, column, start_range);
        copy_async_wait<0>();
        __syncthreads();
        step = next;
    }

    int rows_left = geometry.tokens - warp.first,
        columns_left = geometry.head_dim - block.part * OUT;
    T *target = d_qkv + warp.first * block.width() + block.part * OUT;
    store_rows<COLUMNS, TILES, OUT>(warp_tile, warp.sums, geometry.scale,
                                    target + (block.rows() - qkv), block.width(), rows_left,
                                    columns_left);
    if constexpr (OF_KEYS)
        store_rows<COLUMNS, TILES, OUT>(d_warp_tile, warp.d_sums, 1.0f,
                                        target + (block.d_rows() - qkv), block.width(), rows_left,
                                        columns_left);
}

template <typename T, int COLUMNS, bool OF_KEYS> static cudaError_t bwd_prepare()
{
    return LAUNCH_ALLOW_SHARED((attention_mma_bwd_kernel<T, COLUMNS, OF_KEYS>),
                               (bwd_tiles<COLUMNS, OF_KEYS>::shared_bytes));
}

template <typename T, int COLUMNS, bool OF_KEYS>
static cudaError_t bwd_launch(const struct attn_shape *shape,
                              const struct cuda_attention_bwd_arrays *arrays,
                              const struct attention_stats *stats, cudaStream_t stream)
{
    using tiles = bwd_tiles<COLUMNS, OF_KEYS>;
    uint64_t units = shape->batch * (OF_KEYS ? shape->kv_heads : shape->heads);
    uint64_t blocks = units * tile_count((int)shape->tokens, tiles::rows) * tiles::parts;
    return LAUNCH((attention_mma_bwd_kernel<T, COLUMNS, OF_KEYS>), (unsigned)blocks, tiles::threads,
                  tiles::shared_bytes, stream, attention_geometry_of(shape),
                  static_cast<T *>(arrays->d_qkv), static_cast<const T *>(arrays->d_out),
                  static_cast<const T *>(arrays->qkv), stats->queries, stats->bounds,
                  arrays->row_starts);
}

cudaError_t attention_mma_bwd_prepare(enum dtype type, const struct attn_shape *shape)
{
    return dispatch_head(type, shape->head_dim, [&](auto element, auto columns) {
        using T = decltype(element);
        constexpr int COLUMNS = decltype(columns)::value;
        cudaError_t status = bwd_prepare<T, COLUMNS, true>();
        return status != cudaSuccess ? status : bwd_prepare<T, COLUMNS, false>();
    });
}

cudaError_t attention_mma_bwd(enum dtype type, const struct attn_shape *shape,
                              const struct cuda_attention_bwd_arrays *arrays,
                              const struct attention_stats *stats, cudaStream_t stream)
{
    return dispatch_head(type, shape->head_dim, [&](auto element, auto columns) {
        using T = decltype(element);
        constexpr int COLUMNS = decltype(columns)::value;
        cudaError_t status = bwd_launch<T, COLUMNS, true>(shape, arrays, stats, stream);
        return status != cudaSuccess ? status
                                     : bwd_launch<T, COLUMNS, false>(shape, arrays, stats, stream);
    });
}
