/*
 * attention_tile — tiles of 16-bit elements in shared memory, and the tensor-core fragments loaded
 * from them. C++ only.
 *
 * A fragment load reads 16 bytes of each of eight rows. A swizzle puts these in different banks:
 * 16-byte chunk c of row r is stored at c ^ f(r).
 *
 *     row 0   0 1 2 3 4 5 6 7        row 2   2 3 0 1 6 7 4 5        of 64 columns
 *     row 1   1 0 3 2 5 4 7 6        row 3   3 2 1 0 7 6 5 4
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_ATTENTION_ATTENTION_TILE_H
#define MILLRACE_TRAINER_OPS_CUDA_ATTENTION_ATTENTION_TILE_H

#include "trainer/ops/cuda/dispatch.h"
#include "trainer/ops/cuda/element.h"
#include "trainer/ops/cuda/reduce.h"
#include "trainer/ops/cuda/tensor_core.h"

#include <type_traits>

enum { CHUNK_ELEMENTS = 8, MMA_ROWS = 16, MMA_COLUMNS = 8, MMA_DEPTH = 16 };

/* The XOR permutes groups of eight chunks, or groups of four if the number of chunks in a row is
 * not a multiple of eight. */
template <int COLUMNS> struct tile_layout {
    static constexpr int chunks = COLUMNS / CHUNK_ELEMENTS;
    static constexpr int swizzle_chunks = chunks % 8 == 0 ? 8 : 4;
    static_assert(chunks % swizzle_chunks == 0, "whole swizzle groups");
};

/* Offset of a chunk, in elements. */
template <int COLUMNS> __device__ inline int tile_at(int row, int chunk)
{
    using layout = tile_layout<COLUMNS>;
    int swizzle = row / (8 / layout::swizzle_chunks) % layout::swizzle_chunks;
    return (row * layout::chunks + (chunk ^ swizzle)) * CHUNK_ELEMENTS;
}

/* Calls launch(T(), std::integral_constant<int, COLUMNS>()) with the narrowest compiled tiles that
 * hold a head of 16-bit T. Shared memory pads smaller heads with zeros. */
template <typename F>
static cudaError_t dispatch_head(enum dtype type, uint64_t head_dim, const F &launch)
{
    auto launch_columns = [&](auto element) {
        if (head_dim <= 32)
            return launch(element, std::integral_constant<int, 32>());
        if (head_dim <= 64)
            return launch(element, std::integral_constant<int, 64>());
        if (head_dim <= 96)
            return launch(element, std::integral_constant<int, 96>());
        if (head_dim <= 128)
            return launch(element, std::integral_constant<int, 128>());
        return launch(element, std::integral_constant<int, 256>());
    };
    return type == DTYPE_BF16 ? launch_columns(__nv_bfloat16()) : launch_columns(__half());
}

/* All threads of a block of THREADS start copying rows x columns elements, with rows `stride`
 * apart, into a tile of ROWS x COLUMNS, and zero the rest. columns is a multiple of 8. */
template <int ROWS, int COLUMNS, int THREADS, typename T>
__device__ inline void tile_copy_async(T *tile, const T *source, uint64_t stride, int rows,
                                       int columns)
{
    using layout = tile_layout<COLUMNS>;
    constexpr int pass_rows = THREADS / layout::swizzle_chunks;
    static_assert(ROWS % pass_rows == 0 && pass_rows % 8 == 0,
                  "the rows must divide into whole passes with the same swizzle");
    unsigned thread = reload_thread_index();
    int row = (int)(thread / layout::swizzle_chunks),
        chunk = (int)(thread % layout::swizzle_chunks);
    T *to = tile + tile_at<COLUMNS>(row, chunk);
    const T *from = source + row * stride + chunk * CHUNK_ELEMENTS;
#pragma unroll
    for (int pass = 0; pass < ROWS / pass_rows; pass++) {
#pragma unroll
        for (int next = 0; next < layout::chunks; next += layout::swizzle_chunks) {
            bool is_valid =
                row + pass * pass_rows < rows && (chunk + next) * CHUNK_ELEMENTS < columns;
            copy_async_16(to + pass * pass_rows * COLUMNS + next * CHUNK_ELEMENTS,
                          from + next * CHUNK_ELEMENTS, is_valid);
        }
        from += pass_rows * stride;
    }
}

/* Offset of the 16 bytes that a lane reads of a fragment at row (a multiple of 8) and column (a
 * multiple of 16). The lane adds lane_row and lane_chunk (0 or 1). The lane's terms and the
 * position's terms are separate, because the position is constant in unrolled loops: an address
 * then takes one operation and few registers. */
template <int COLUMNS>
__device__ inline int fragment_at(int row, int column, int lane_row, int lane_chunk)
{
    constexpr int swizzle_chunks = tile_layout<COLUMNS>::swizzle_chunks;
    int chunk = column / CHUNK_ELEMENTS,
        lane_swizzle = lane_chunk ^ (lane_row / (8 / swizzle_chunks) % swizzle_chunks);
    int swizzled_chunk =
        chunk / swizzle_chunks * swizzle_chunks + ((chunk % swizzle_chunks) ^ lane_swizzle);
    return (row + lane_row) * COLUMNS + swizzled_chunk * CHUNK_ELEMENTS;
}

/* Loads A of mma: rows row..row + 15 and columns column..column + 15. */
template <int COLUMNS, typename T>
__device__ inline void load_a(uint32_t a[4], const T *tile, int row, int column)
{
    int lane = threadIdx.x % WARP_THREADS;
    load_matrices<false>(a, tile + fragment_at<COLUMNS>(row, column, lane % 16, lane / 16));
}

/* The A fragments of a warp's TILES x 16 rows, all columns. IN_REGISTERS: loaded once; else on each
 * use. */
template <typename T, int COLUMNS, int TILES, bool IN_REGISTERS> struct row_fragments {
    const T *rows;
    uint32_t fragments[IN_REGISTERS ? COLUMNS / MMA_DEPTH : 1][TILES][4];

    /* Call once, after the copy to shared memory has finished. */
    __device__ void preload()
    {
        if constexpr (IN_REGISTERS) {
#pragma unroll
            for (int depth = 0; depth < COLUMNS / MMA_DEPTH; depth++)
#pragma unroll
                for (int tile = 0; tile < TILES; tile++)
                    load_a<COLUMNS>(fragments[depth][tile], rows, tile * MMA_ROWS,
                                    depth * MMA_DEPTH);
        }
    }

    __device__ void get(uint32_t a[TILES][4], int depth) const
    {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            if constexpr (IN_REGISTERS) {
#pragma unroll
                for (int i = 0; i < 4; i++)
                    a[tile][i] = fragments[depth][tile][i];
            } else {
                load_a<COLUMNS>(a[tile], rows, tile * MMA_ROWS, depth * MMA_DEPTH);
            }
        }
    }
};

/* Loads two adjacent B fragments, b[0..1] and b[2..3], from the transpose: rows row..row + 15 of
 * the tile become B's columns, and columns column..column + 15 become B's rows. */
template <int COLUMNS, typename T>
__device__ inline void load_b_of_rows(uint32_t b[4], const T *tile, int row, int column)
{
    int lane = threadIdx.x % WARP_THREADS;
    load_matrices<false>(
        b, tile + fragment_at<COLUMNS>(row, column, lane % 8 + lane / 16 * 8, lane / 8 % 2));
}

/* Loads two adjacent B fragments: rows row..row + 15 and columns column..column + 15 of the
 * tile. */
template <int COLUMNS, typename T>
__device__ inline void load_b_of_columns(uint32_t b[4], const T *tile, int row, int column)
{
    int lane = threadIdx.x % WARP_THREADS;
    load_matrices<true>(b, tile + fragment_at<COLUMNS>(row, column, lane % 16, lane / 16));
}

__device__ inline uint32_t bits_of(__nv_bfloat162 pair)
{
    return *reinterpret_cast<uint32_t *>(&pair);
}

__device__ inline uint32_t bits_of(__half2 pair)
{
    return *reinterpret_cast<uint32_t *>(&pair);
}

/* Rounds two floats; `low` goes to the low half. */
template <typename T> __device__ inline uint32_t pack_pair(float low, float high);

template <> __device__ inline uint32_t pack_pair<__nv_bfloat16>(float low, float high)
{
    return bits_of(__floats2bfloat162_rn(low, high));
}

template <> __device__ inline uint32_t pack_pair<__half>(float low, float high)
{
    return bits_of(__floats2half2_rn(low, high));
}

/* Rounds two adjacent C fragments (16 x 16) to the A fragment of the next product, within each
 * thread. */
template <typename T> __device__ inline void pack_a(uint32_t a[4], const float c[2][4])
{
    a[0] = pack_pair<T>(c[0][0], c[0][1]);
    a[1] = pack_pair<T>(c[0][2], c[0][3]);
    a[2] = pack_pair<T>(c[1][0], c[1][1]);
    a[3] = pack_pair<T>(c[1][2], c[1][3]);
}

/* Multiplies a warp's TILES x 16 rows of accumulators by factor, rounds them and writes the first
 * rows x columns to `target`, with rows `stride` apart. `staging`, the warp's rows of a tile of
 * COLUMNS, permits 16-byte writes. All lanes must call it. */
template <int COLUMNS, int TILES, int OUT, typename T>
__device__ inline void store_rows(T *staging, const float (&c)[TILES][OUT / MMA_COLUMNS][4],
                                  float factor, T *target, uint64_t stride, int rows, int columns)
{
    int lane = threadIdx.x % WARP_THREADS, group = lane / 4, pair = lane % 4;
    __syncwarp();
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int n = 0; n < OUT / MMA_COLUMNS; n++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                T *at =
                    staging + tile_at<COLUMNS>(tile * MMA_ROWS + half * 8 + group, n) + 2 * pair;
                *reinterpret_cast<uint32_t *>(at) =
                    pack_pair<T>(c[tile][n][2 * half] * factor, c[tile][n][2 * half + 1] * factor);
            }
    __syncwarp();
    constexpr int chunks = OUT / CHUNK_ELEMENTS;
    for (int at = lane; at < TILES * MMA_ROWS * chunks; at += WARP_THREADS) {
        int row = at / chunks, chunk = at % chunks;
        if (row < rows && chunk * CHUNK_ELEMENTS < columns)
            store_packed(target + row * stride + chunk * CHUNK_ELEMENTS,
                         load_packed(staging + tile_at<COLUMNS>(row, chunk)));
    }
}

#endif
