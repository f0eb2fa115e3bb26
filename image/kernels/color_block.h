/*
 * color_block — inner loops of color.c: blocks of adjacent pixels, by instruction set.
 */
#ifndef MILLRACE_IMAGE_KERNELS_COLOR_BLOCK_H
#define MILLRACE_IMAGE_KERNELS_COLOR_BLOCK_H

#include <stdint.h>

/* 1.402, 0.344136, 0.714136, 1.772 with 16 fractional bits, as libjpeg rounds them. Factors
 * above one half are split into a multiple of COLOR_ONE and a remainder that fits in int16. */
enum {
    COLOR_ONE = 1 << 16,
    COLOR_CR_TO_R = 91881,
    COLOR_CB_TO_G = 22554,
    COLOR_CR_TO_G = 46802,
    COLOR_CB_TO_B = 116130,
    COLOR_RED_REMAINDER = COLOR_CR_TO_R - COLOR_ONE,
    COLOR_GREEN_REMAINDER = COLOR_ONE - COLOR_CR_TO_G,
    COLOR_BLUE_REMAINDER = COLOR_CB_TO_B - 2 * COLOR_ONE,
};

/* Converts three planes to interleaved RGB. */
typedef void color_block_fn(const uint8_t *first, const uint8_t *second, const uint8_t *third,
                            uint8_t *rgb);

struct color_blocks {
    uint32_t pixels; /* per block */
    color_block_fn *from_ycbcr, *from_rgb;
};

#ifdef __aarch64__
extern const struct color_blocks color_blocks_neon;
#endif
#ifdef __x86_64__
extern const struct color_blocks color_blocks_avx2, color_blocks_avx512;
#endif

#endif
