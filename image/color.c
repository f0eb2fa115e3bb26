/*
 * color — see color.h. Chunks of constant length in int32, so that compilers turn them into vector instructions; on x86
 * they are compiled a second time for AVX2.
 */
#include "image/color.h"

enum {
    CHUNK = 64,
    HALF = 1 << 15,
    /* 1.402, 0.344136, 0.714136, 1.772 with 16 fractional bits, as libjpeg rounds them */
    CR_TO_R = 91881,
    CB_TO_G = 22554,
    CR_TO_G = 46802,
    CB_TO_B = 116130,
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE uint8_t clamp(int32_t value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

ALWAYS_INLINE void interleave(const uint8_t *restrict r, const uint8_t *restrict g, const uint8_t *restrict b,
                              uint8_t *restrict rgb, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rgb[3 * i] = r[i];
        rgb[3 * i + 1] = g[i];
        rgb[3 * i + 2] = b[i];
    }
}

ALWAYS_INLINE void convert_chunk(const uint8_t *restrict luma, const uint8_t *restrict cb,
                                 const uint8_t *restrict cr, uint8_t *restrict rgb, size_t count)
{
    uint8_t r[CHUNK], g[CHUNK], b[CHUNK];
    for (size_t i = 0; i < count; i++) {
        int32_t y = luma[i], blue = cb[i] - 128, red = cr[i] - 128;
        r[i] = clamp(y + ((CR_TO_R * red + HALF) >> 16));
        g[i] = clamp(y + ((-CB_TO_G * blue - CR_TO_G * red + HALF) >> 16));
        b[i] = clamp(y + ((CB_TO_B * blue + HALF) >> 16));
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
