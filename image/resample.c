/*
 * resample — the filter's pass over samples; see resample.h. Coefficients are made in resample_plan.c.
 *
 * A tile is 16 outputs of 64 columns: a vector of sums for each output, rounded to bytes, then sixteen by sixteen
 * transposed. The inner loops have constant lengths, so that compilers turn them into vector instructions; on x86 they
 * are compiled a second time for AVX2. Integers, so both give the same.
 */
#include "image/resample.h"

#include <string.h>

enum {
    TILE_OUTPUTS = 16,
    TILE_COLUMNS = 64,
    ROUNDING = 1 << (RESAMPLE_FRACTION_BITS - 1),
};

typedef uint8_t bytes16 __attribute__((vector_size(16)));

struct tile {
    uint8_t sample[TILE_OUTPUTS][TILE_COLUMNS] __attribute__((aligned(64)));
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE void add_taps(const struct resample_plan *plan, const uint8_t *row, size_t stride_bytes,
                            uint32_t output, size_t columns, int32_t *sums)
{
    const int16_t *coefficients = plan->coefficients + (size_t)output * plan->taps_max;
    for (uint32_t tap = 0; tap < plan->taps[output]; tap++, row += stride_bytes) {
        int16_t coefficient = coefficients[tap];
        for (size_t c = 0; c < columns; c++)
            sums[c] += (int32_t)coefficient * (int16_t)row[c];
    }
}

/* column: the tile's first, of columns (<= TILE_COLUMNS). */
ALWAYS_INLINE void filter_row(const struct resample_plan *plan, const struct resample_rows *source,
                              uint32_t output, size_t column, size_t columns, uint8_t *restrict line)
{
    int32_t sums[TILE_COLUMNS] __attribute__((aligned(64)));
    const uint8_t *row = source->data + (plan->first[output] - source->first) * source->stride_bytes + column;
    for (size_t c = 0; c < TILE_COLUMNS; c++)
        sums[c] = ROUNDING;
    if (columns == TILE_COLUMNS)
        add_taps(plan, row, source->stride_bytes, output, TILE_COLUMNS, sums);
    else
        add_taps(plan, row, source->stride_bytes, output, columns, sums);
    for (size_t c = 0; c < TILE_COLUMNS; c++)
        line[c] = (uint8_t)(sums[c] >> RESAMPLE_FRACTION_BITS);
}

/* Four rounds of interleaving the first eight rows with the last eight transpose sixteen by sixteen. */
ALWAYS_INLINE void transpose_block(const struct tile *tile, size_t column, uint8_t block[16][16])
{
    bytes16 rows[16], next[16];
    for (size_t i = 0; i < 16; i++)
        memcpy(&rows[i], &tile->sample[i][column], 16);
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < 8; i++) {
            next[2 * i] = __builtin_shufflevector(rows[i], rows[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5,
                                                  21, 6, 22, 7, 23);
            next[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12,
                                                      28, 13, 29, 14, 30, 15, 31);
        }
        memcpy(rows, next, sizeof rows);
    }
    memcpy(block, rows, sizeof rows);
}

ALWAYS_INLINE void put_transposed(const struct tile *tile, size_t outputs, size_t columns, uint8_t *target,
                                  size_t target_stride_bytes)
{
    uint8_t block[16][16];
    for (size_t column = 0; column < columns; column += 16) {
        size_t count = columns - column < 16 ? columns - column : 16;
        transpose_block(tile, column, block);
        for (size_t i = 0; i < count; i++) {
            uint8_t *line = target + (column + i) * target_stride_bytes;
            if (outputs == TILE_OUTPUTS)
                memcpy(line, block[i], TILE_OUTPUTS);
            else
                memcpy(line, block[i], outputs);
        }
    }
}

ALWAYS_INLINE void put_straight(const struct tile *tile, size_t outputs, size_t columns, uint8_t *target,
                                size_t target_stride_bytes)
{
    for (size_t i = 0; i < outputs; i++)
        memcpy(target + i * target_stride_bytes, tile->sample[i], columns);
}

ALWAYS_INLINE void resample(const struct resample_plan *plan, const struct resample_rows *source,
                            uint8_t *target, size_t target_stride_bytes, bool transposed)
{
    struct tile tile = {0};
    for (size_t column = 0; column < source->columns; column += TILE_COLUMNS) {
        size_t columns = source->columns - column < TILE_COLUMNS ? source->columns - column : TILE_COLUMNS;
        for (uint32_t output = 0; output < plan->count; output += TILE_OUTPUTS) {
            uint32_t outputs = plan->count - output < TILE_OUTPUTS ? plan->count - output : TILE_OUTPUTS;
            for (uint32_t i = 0; i < outputs; i++)
                filter_row(plan, source, output + i, column, columns, tile.sample[i]);
            if (transposed)
                put_transposed(&tile, outputs, columns, target + column * target_stride_bytes + output,
                               target_stride_bytes);
            else
                put_straight(&tile, outputs, columns, target + output * target_stride_bytes + column,
                             target_stride_bytes);
        }
    }
}

static void resample_plain(const struct resample_plan *plan, const struct resample_rows *source,
                           uint8_t *target, size_t target_stride_bytes, bool transposed)
{
    resample(plan, source, target, target_stride_bytes, transposed);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void resample_avx2(const struct resample_plan *plan,
                                                          const struct resample_rows *source, uint8_t *target,
                                                          size_t target_stride_bytes, bool transposed)
{
    resample(plan, source, target, target_stride_bytes, transposed);
}
#endif

static bool has_avx2(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}

const char *resample_kernels(void)
{
    return has_avx2() ? "avx2" : "baseline";
}

static void resample_best(const struct resample_plan *plan, const struct resample_rows *source,
                          uint8_t *target, size_t target_stride_bytes, bool transposed)
{
#ifdef __x86_64__
    if (has_avx2()) {
        resample_avx2(plan, source, target, target_stride_bytes, transposed);
        return;
    }
#endif
    resample_plain(plan, source, target, target_stride_bytes, transposed);
}

void resample_columns_transposed(const struct resample_plan *plan, const struct resample_rows *source,
                                 uint8_t *target, size_t target_stride_bytes)
{
    resample_best(plan, source, target, target_stride_bytes, true);
}

void resample_columns_straight(const struct resample_plan *plan, const struct resample_rows *source,
                               uint8_t *target, size_t target_stride_bytes)
{
    resample_best(plan, source, target, target_stride_bytes, false);
}
