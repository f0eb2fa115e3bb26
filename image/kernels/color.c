/*
 * color — see color.h. Processes lines in blocks (color_block.h); the last block of a line
 * overlaps the previous one. Plain C also handles lines shorter than a block.
 */
#include "image/kernels/color.h"

#include "image/kernels/color_block.h"

/* ---- Plain C. ---- */

static uint8_t clamp(int32_t value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void ycbcr_plain(const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
                        uint8_t *restrict rgb, size_t count)
{
    enum { HALF = COLOR_ONE / 2 };
    for (size_t i = 0; i < count; i++) {
        int32_t blue = cb[i] - 128, red = cr[i] - 128;
        rgb[3 * i] = clamp(y[i] + ((COLOR_CR_TO_R * red + HALF) >> 16));
        rgb[3 * i + 1] = clamp(y[i] + ((-COLOR_CB_TO_G * blue - COLOR_CR_TO_G * red + HALF) >> 16));
        rgb[3 * i + 2] = clamp(y[i] + ((COLOR_CB_TO_B * blue + HALF) >> 16));
    }
}

static void planes_plain(const uint8_t *r, const uint8_t *g, const uint8_t *b,
                         uint8_t *restrict rgb, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rgb[3 * i] = r[i];
        rgb[3 * i + 1] = g[i];
        rgb[3 * i + 2] = b[i];
    }
}

/* ---- Lines. ---- */

/* Returns the fastest blocks up to `kernels` that fit in count pixels; NULL: plain C. */
static const struct color_blocks *choose_blocks(enum image_kernels kernels, size_t count)
{
    static const struct color_blocks *const blocks[IMAGE_KERNELS_COUNT] = {
#ifdef __aarch64__
        [IMAGE_KERNELS_NEON] = &color_blocks_neon,
#endif
#ifdef __x86_64__
        [IMAGE_KERNELS_AVX2] = &color_blocks_avx2,
        [IMAGE_KERNELS_AVX512] = &color_blocks_avx512,
#endif
    };
    while (kernels > IMAGE_KERNELS_PLAIN && (!blocks[kernels] || count < blocks[kernels]->pixels))
        kernels--;
    return blocks[kernels];
}

static void convert(color_block_fn *block, size_t pixels, const uint8_t *first,
                    const uint8_t *second, const uint8_t *third, uint8_t *rgb, size_t count)
{
    for (size_t begin = 0; begin < count; begin += pixels) {
        size_t at = count - begin < pixels ? count - pixels : begin;
        block(first + at, second + at, third + at, rgb + 3 * at);
    }
}

void color_ycbcr_to_rgb(enum image_kernels kernels, const uint8_t *y, const uint8_t *cb,
                        const uint8_t *cr, uint8_t *rgb, size_t count)
{
    const struct color_blocks *blocks = choose_blocks(kernels, count);
    if (blocks)
        convert(blocks->from_ycbcr, blocks->pixels, y, cb, cr, rgb, count);
    else
        ycbcr_plain(y, cb, cr, rgb, count);
}

void color_planes_to_rgb(enum image_kernels kernels, const uint8_t *r, const uint8_t *g,
                         const uint8_t *b, uint8_t *rgb, size_t count)
{
    const struct color_blocks *blocks = choose_blocks(kernels, count);
    if (blocks)
        convert(blocks->from_rgb, blocks->pixels, r, g, b, rgb, count);
    else
        planes_plain(r, g, b, rgb, count);
}

void color_gray_to_rgb(enum image_kernels kernels, const uint8_t *gray, uint8_t *rgb, size_t count)
{
    color_planes_to_rgb(kernels, gray, gray, gray, rgb, count);
}
