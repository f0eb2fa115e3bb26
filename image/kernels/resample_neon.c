/*
 * resample_neon — NEON tiles (resample_tile.h).
 *
 * A row's 16 bytes are widened to 16 bits, and four instructions multiply them by the tap's
 * coefficient and add. Transposes like resample_columns.c.
 */
#ifdef __aarch64__

#include "image/kernels/resample_tile.h"

#include <arm_neon.h>
#include <string.h>

enum { NEON_COLUMNS = 16 };

static inline uint8x16_t filter_neon(const struct resample_tile *tile, uint32_t i)
{
    const int16_t *coefficients = resample_tile_coefficients(tile, i);
    const uint8_t *row = resample_tile_row(tile, i);
    uint32_t taps = tile->plan->taps[tile->output + i];
    uint32x4_t sums[4];
    for (int k = 0; k < 4; k++)
        sums[k] = vdupq_n_u32(RESAMPLE_ROUNDING);
    for (uint32_t tap = 0; tap < taps; tap++, row += tile->source->stride_bytes) {
        uint16_t factor = (uint16_t)coefficients[tap];
        uint8x16_t samples = vld1q_u8(row);
        uint16x8_t low = vmovl_u8(vget_low_u8(samples)), high = vmovl_high_u8(samples);
        sums[0] = vmlal_n_u16(sums[0], vget_low_u16(low), factor);
        sums[1] = vmlal_high_n_u16(sums[1], low, factor);
        sums[2] = vmlal_n_u16(sums[2], vget_low_u16(high), factor);
        sums[3] = vmlal_high_n_u16(sums[3], high, factor);
    }
    uint16x8_t low = vshrn_high_n_u32(vshrn_n_u32(sums[0], RESAMPLE_FRACTION_BITS), sums[1],
                                      RESAMPLE_FRACTION_BITS);
    uint16x8_t high = vshrn_high_n_u32(vshrn_n_u32(sums[2], RESAMPLE_FRACTION_BITS), sums[3],
                                       RESAMPLE_FRACTION_BITS);
    return vcombine_u8(vmovn_u16(low), vmovn_u16(high));
}

static inline void transpose_neon(uint8x16_t rows[16])
{
    uint8x16_t next[16];
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 8; i++) {
            next[2 * i] = vzip1q_u8(rows[i], rows[i + 8]);
            next[2 * i + 1] = vzip2q_u8(rows[i], rows[i + 8]);
        }
        memcpy(rows, next, sizeof next);
    }
}

static void run_neon(const struct resample_tile *tile)
{
    size_t stride_bytes = tile->target_stride_bytes;
    uint8x16_t rows[16];
    for (uint32_t i = 0; i < tile->outputs; i++) {
        uint8x16_t line = filter_neon(tile, i);
        if (tile->transposed)
            rows[i] = line;
        else
            vst1q_u8(tile->target + i * stride_bytes, line);
    }
    if (!tile->transposed)
        return;
    for (uint32_t i = tile->outputs; i < RESAMPLE_TILE_OUTPUTS; i++)
        rows[i] = vdupq_n_u8(0);
    transpose_neon(rows);
    for (uint32_t i = 0; i < NEON_COLUMNS; i++) {
        if (tile->outputs == RESAMPLE_TILE_OUTPUTS)
            vst1q_u8(tile->target + i * stride_bytes, rows[i]);
        else
            memcpy(tile->target + i * stride_bytes, &rows[i], tile->outputs);
    }
}

const struct resample_tiler resample_tiler_neon = {.columns = NEON_COLUMNS, .run = run_neon};

#endif
