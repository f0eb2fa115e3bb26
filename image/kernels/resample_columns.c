/*
 * resample_columns — the filter's pass over samples (resample.h). resample_plan.c computes the
 * coefficients.
 *
 * A pass works tile by tile (resample_tile.h). The last tile of a line overlaps the previous
 * one, with the same result. The plain C tiles here take any number of columns, so they also
 * handle sources narrower than other kernels' tiles.
 */
#include "image/kernels/resample.h"

#include "image/kernels/resample_tile.h"

#include <string.h>

enum { PLAIN_COLUMNS = 64 };

/* ---- Plain C. Inner loops of whole tiles have constant lengths, so that compilers vectorize
 * them. ---- */

typedef uint8_t bytes16 __attribute__((vector_size(16)));

/* gcc 11 lacks clang's built-in function, and clang lacks gcc's. */
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (bytes16){__VA_ARGS__})
#endif

struct lines {
    uint8_t sample[RESAMPLE_TILE_OUTPUTS][PLAIN_COLUMNS] __attribute__((aligned(64)));
};

static inline void add_tap(const uint8_t *row, int16_t coefficient, size_t columns, int32_t *sums)
{
    for (size_t c = 0; c < columns; c++)
        sums[c] += (int32_t)coefficient * (int16_t)row[c];
}

static void filter_plain(const struct resample_tile *tile, uint32_t i, uint8_t *restrict line)
{
    int32_t sums[PLAIN_COLUMNS] __attribute__((aligned(64)));
    const int16_t *coefficients = resample_tile_coefficients(tile, i);
    const uint8_t *row = resample_tile_row(tile, i);
    for (size_t c = 0; c < PLAIN_COLUMNS; c++)
        sums[c] = RESAMPLE_ROUNDING;
    for (uint32_t tap = 0; tap < tile->plan->taps[tile->output + i]; tap++) {
        if (tile->columns == PLAIN_COLUMNS)
            add_tap(row, coefficients[tap], PLAIN_COLUMNS, sums);
        else
            add_tap(row, coefficients[tap], tile->columns, sums);
        row += tile->source->stride_bytes;
    }
    for (size_t c = 0; c < PLAIN_COLUMNS; c++)
        line[c] = (uint8_t)(sums[c] >> RESAMPLE_FRACTION_BITS);
}

/* Transposes 16 x 16 bytes in four rounds of interleaving the first eight rows with the last
 * eight. */
static void transpose_block(const struct lines *lines, size_t column, uint8_t block[16][16])
{
    bytes16 rows[16], next[16];
    for (size_t i = 0; i < 16; i++)
        memcpy(&rows[i], &lines->sample[i][column], 16);
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < 8; i++) {
            next[2 * i] = SHUFFLE(rows[i], rows[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                  22, 7, 23);
            next[2 * i + 1] = SHUFFLE(rows[i], rows[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                      13, 29, 14, 30, 15, 31);
        }
        memcpy(rows, next, sizeof rows);
    }
    memcpy(block, rows, sizeof rows);
}

static void store_transposed(const struct resample_tile *tile, const struct lines *lines)
{
    uint8_t block[16][16];
    for (size_t column = 0; column < tile->columns; column += 16) {
        size_t count = tile->columns - column < 16 ? tile->columns - column : 16;
        transpose_block(lines, column, block);
        for (size_t i = 0; i < count; i++) {
            uint8_t *line = tile->target + (column + i) * tile->target_stride_bytes;
            if (tile->outputs == RESAMPLE_TILE_OUTPUTS)
                memcpy(line, block[i], RESAMPLE_TILE_OUTPUTS);
            else
                memcpy(line, block[i], tile->outputs);
        }
    }
}

static void run_plain(const struct resample_tile *tile)
{
    struct lines lines = {0};
    for (uint32_t i = 0; i < tile->outputs; i++)
        filter_plain(tile, i, lines.sample[i]);
    if (tile->transposed) {
        store_transposed(tile, &lines);
        return;
    }
    for (uint32_t i = 0; i < tile->outputs; i++)
        memcpy(tile->target + i * tile->target_stride_bytes, lines.sample[i], tile->columns);
}

static const struct resample_tiler tiler_plain = {
    .columns = PLAIN_COLUMNS, .handles_partial_tiles = true, .run = run_plain};

/* ---- The pass. ---- */

/* Returns the fastest tiler up to `kernels` that accepts the columns. */
static const struct resample_tiler *choose_tiler(enum image_kernels kernels, uint32_t columns)
{
    static const struct resample_tiler *const tilers[IMAGE_KERNELS_COUNT] = {
        [IMAGE_KERNELS_PLAIN] = &tiler_plain,
#ifdef __aarch64__
        [IMAGE_KERNELS_NEON] = &resample_tiler_neon,
#endif
#ifdef __x86_64__
        [IMAGE_KERNELS_AVX2] = &resample_tiler_avx2,
        [IMAGE_KERNELS_AVX512] = &resample_tiler_avx512,
#endif
    };
    while (!tilers[kernels] ||
           (columns < tilers[kernels]->columns && !tilers[kernels]->handles_partial_tiles))
        kernels--;
    return tilers[kernels];
}

void resample_columns(enum image_kernels kernels, const struct resample_plan *plan,
                      const struct resample_rows *source, bool transposed, uint8_t *target,
                      size_t target_stride_bytes)
{
    const struct resample_tiler *tiler = choose_tiler(kernels, source->columns);
    uint32_t columns = source->columns < tiler->columns ? source->columns : tiler->columns;
    for (uint32_t begin = 0; begin < source->columns; begin += columns) {
        uint32_t left = source->columns - begin;
        uint32_t column = left < columns ? source->columns - columns : begin;
        for (uint32_t output = 0; output < plan->count; output += RESAMPLE_TILE_OUTPUTS) {
            uint32_t outputs = plan->count - output;
            size_t at = transposed ? column * target_stride_bytes + output
                                   : output * target_stride_bytes + column;
            tiler->run(&(struct resample_tile){
                .plan = plan,
                .source = source,
                .output = output,
                .outputs = outputs < RESAMPLE_TILE_OUTPUTS ? outputs : RESAMPLE_TILE_OUTPUTS,
                .column = column,
                .columns = columns,
                .target = target + at,
                .target_stride_bytes = target_stride_bytes,
                .transposed = transposed,
            });
        }
    }
}
