/*
 * color_neon — NEON blocks (color_block.h).
 */
#ifdef __aarch64__

#include "image/kernels/color_block.h"

#include <arm_neon.h>

enum { NEON_PIXELS = 16 };

/* (factor * value + 2^15) >> 16: the upper half of twice the product, halved with rounding. */
static inline int16x8_t scale(int16x8_t value, int16_t factor)
{
    return vrshrq_n_s16(vqdmulhq_n_s16(value, factor), 1);
}

static inline int16x8_t green(int16x8_t blue, int16x8_t red)
{
    int32x4_t low = vmull_n_s16(vget_low_s16(blue), -COLOR_CB_TO_G);
    int32x4_t high = vmull_high_n_s16(blue, -COLOR_CB_TO_G);
    low = vmlal_n_s16(low, vget_low_s16(red), COLOR_GREEN_REMAINDER);
    high = vmlal_high_n_s16(high, red, COLOR_GREEN_REMAINDER);
    return vcombine_s16(vrshrn_n_s32(low, 16), vrshrn_n_s32(high, 16));
}

/* Converts eight pixels. */
static inline uint8x8x3_t convert(uint8x8_t luma, uint8x8_t cb, uint8x8_t cr)
{
    int16x8_t y = vreinterpretq_s16_u16(vmovl_u8(luma));
    int16x8_t blue = vreinterpretq_s16_u16(vsubl_u8(cb, vdup_n_u8(128)));
    int16x8_t red = vreinterpretq_s16_u16(vsubl_u8(cr, vdup_n_u8(128)));
    int16x8_t r = vaddq_s16(red, scale(red, COLOR_RED_REMAINDER));
    int16x8_t g = vsubq_s16(green(blue, red), red);
    int16x8_t b = vaddq_s16(vaddq_s16(blue, blue), scale(blue, COLOR_BLUE_REMAINDER));
    return (uint8x8x3_t){
        {vqmovun_s16(vaddq_s16(y, r)), vqmovun_s16(vaddq_s16(y, g)), vqmovun_s16(vaddq_s16(y, b))}};
}

static void ycbcr_neon(const uint8_t *luma, const uint8_t *chroma_blue, const uint8_t *chroma_red,
                       uint8_t *rgb)
{
    for (int i = 0; i < NEON_PIXELS; i += 8)
        vst3_u8(rgb + 3 * i,
                convert(vld1_u8(luma + i), vld1_u8(chroma_blue + i), vld1_u8(chroma_red + i)));
}

static void planes_neon(const uint8_t *r, const uint8_t *g, const uint8_t *b, uint8_t *rgb)
{
    vst3q_u8(rgb, (uint8x16x3_t){{vld1q_u8(r), vld1q_u8(g), vld1q_u8(b)}});
}

const struct color_blocks color_blocks_neon = {
    .pixels = NEON_PIXELS, .from_ycbcr = ycbcr_neon, .from_rgb = planes_neon};

#endif
