/*
 * color — see color.h. Factors over one half are split into whole multiples and a rest, so that products are of int16;
 * chunks have a constant length, so that compilers turn them into vector instructions; on x86 they are compiled a
 * second time for AVX2.
 */
#include "image/color.h"

#include <string.h>

enum {
    CHUNK = 32,
    ONE = 1 << 16,
    HALF = 1 << 15,
    /* 1.402, 0.344136, 0.714136, 1.772 with 16 fractional bits, as libjpeg rounds them */
    CR_TO_R = 91881,
    CB_TO_G = 22554,
    CR_TO_G = 46802,
    CB_TO_B = 116130,
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE uint8_t clamp(int16_t value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

typedef uint8_t bytes16 __attribute__((vector_size(16)));

/* Sixteen pixels: red and green into their places, then blue between them. */
ALWAYS_INLINE void interleave16(const uint8_t *r, const uint8_t *g, const uint8_t *b, uint8_t *rgb)
{
    bytes16 red, green, blue, out[3];
    memcpy(&red, r, 16);
    memcpy(&green, g, 16);
    memcpy(&blue, b, 16);
    out[0] = __builtin_shufflevector(red, green, 0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0, 5);
    out[1] = __builtin_shufflevector(red, green, 21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10, 26);
    out[2] = __builtin_shufflevector(red, green, 0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31, 0);
    out[0] = __builtin_shufflevector(out[0], blue, 0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15);
    out[1] = __builtin_shufflevector(out[1], blue, 0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15);
    out[2] = __builtin_shufflevector(out[2], blue, 26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14, 31);
    memcpy(rgb, out, 48);
}

ALWAYS_INLINE void interleave(const uint8_t *r, const uint8_t *g, const uint8_t *b, uint8_t *rgb,
                              size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        interleave16(r + i, g + i, b + i, rgb + 3 * i);
    for (; i < count; i++) {
        rgb[3 * i] = r[i];
        rgb[3 * i + 1] = g[i];
        rgb[3 * i + 2] = b[i];
    }
}

/* (factor * value + 2^15) >> 16, the product's upper half being one instruction. */
ALWAYS_INLINE int16_t scale(int16_t value, int16_t factor)
{
    int16_t twice = (int16_t)(2 * value);
    return (int16_t)(((int16_t)((int32_t)twice * factor >> 16) + 1) >> 1);
}

ALWAYS_INLINE void convert_chunk(const uint8_t *restrict luma, const uint8_t *restrict cb,
                                 const uint8_t *restrict cr, uint8_t *restrict rgb, size_t count)
{
    uint8_t r[CHUNK], g[CHUNK], b[CHUNK];
    for (size_t i = 0; i < count; i++) {
        int16_t y = luma[i], blue = (int16_t)(cb[i] - 128), red = (int16_t)(cr[i] - 128);
        int32_t green = (int32_t)blue * -CB_TO_G + (int32_t)red * (ONE - CR_TO_G) + HALF;
        r[i] = clamp((int16_t)(y + red + scale(red, CR_TO_R - ONE)));
        g[i] = clamp((int16_t)(y - red + (int16_t)(green >> 16)));
        b[i] = clamp((int16_t)(y + 2 * blue + scale(blue, CB_TO_B - 2 * ONE)));
    }
    interleave(r, g, b, rgb, count);
}

ALWAYS_INLINE void convert(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *rgb, size_t count)
{
    size_t i = 0;
    for (; i + CHUNK <= count; i += CHUNK)
        convert_chunk(y + i, cb + i, cr + i, rgb + 3 * i, CHUNK);
    if (i < count)
        convert_chunk(y + i, cb + i, cr + i, rgb + 3 * i, count - i);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void convert_avx2(const uint8_t *y, const uint8_t *cb,
                                                         const uint8_t *cr, uint8_t *rgb, size_t count)
{
    convert(y, cb, cr, rgb, count);
}
#endif

void color_ycbcr_to_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *rgb, size_t count)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        convert_avx2(y, cb, cr, rgb, count);
        return;
    }
#endif
    convert(y, cb, cr, rgb, count);
}

void color_gray_to_rgb(const uint8_t *gray, uint8_t *rgb, size_t count)
{
    interleave(gray, gray, gray, rgb, count);
}

void color_planes_to_rgb(const uint8_t *r, const uint8_t *g, const uint8_t *b, uint8_t *rgb, size_t count)
{
    interleave(r, g, b, rgb, count);
}
