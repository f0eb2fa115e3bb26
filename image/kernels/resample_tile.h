/*
 * resample_tile — inner loops of resample_columns.c: filter and write one tile, by instruction
 * set.
 *
 * A tile is up to 16 outputs of some adjacent columns. The sums of each output are rounded to a
 * line of bytes. Lines are written directly, or transposed in blocks of 16 x 16.
 */
#ifndef MILLRACE_IMAGE_KERNELS_RESAMPLE_TILE_H
#define MILLRACE_IMAGE_KERNELS_RESAMPLE_TILE_H

#include "image/kernels/resample.h"

enum {
    RESAMPLE_TILE_OUTPUTS = 16,
    RESAMPLE_ROUNDING = 1 << (RESAMPLE_FRACTION_BITS - 1),
};

struct resample_tile {
    const struct resample_plan *plan;
    const struct resample_rows *source;
    uint32_t output, outputs; /* in the plan; at most RESAMPLE_TILE_OUTPUTS */
    uint32_t column, columns; /* in the source */
    uint8_t *target;          /* first output byte */
    size_t target_stride_bytes;
    bool transposed;
};

struct resample_tiler {
    uint32_t columns; /* per tile */
    bool handles_partial_tiles;
    void (*run)(const struct resample_tile *tile);
};

#ifdef __aarch64__
extern const struct resample_tiler resample_tiler_neon;
#endif
#ifdef __x86_64__
extern const struct resample_tiler resample_tiler_avx2, resample_tiler_avx512;
#endif

/* Returns the tile's first column in the first source row of output i. */
static inline const uint8_t *resample_tile_row(const struct resample_tile *tile, uint32_t i)
{
    const struct resample_rows *source = tile->source;
    return source->data +
           (tile->plan->first[tile->output + i] - source->first) * source->stride_bytes +
           tile->column;
}

static inline const int16_t *resample_tile_coefficients(const struct resample_tile *tile,
                                                        uint32_t i)
{
    return tile->plan->coefficients + (size_t)(tile->output + i) * tile->plan->taps_max;
}

#endif
