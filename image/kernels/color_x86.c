/*
 * color_x86 — blocks by AVX2 and AVX-512. See color_block.h.
 *
 * Bytes are widened within 16-byte lanes, and packing undoes that. Red, green and blue are also
 * interleaved within lanes: a lane's 16 pixels become three pieces of 16 bytes, and each shuffle
 * picks a byte or leaves zero.
 */
#ifdef __x86_64__

#include "image/kernels/color_block.h"

#include <immintrin.h>

#define AVX2   __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

enum { LANE_BYTES = 16, PIECES = 3, AVX2_PIXELS = 32, AVX512_PIXELS = 64, NO = 0x80 };

/* [color][piece][byte]: the pixel's index in the lane; NO: the byte belongs to another color. */
static const uint8_t picks[3][PIECES][LANE_BYTES] = {
    {{0, NO, NO, 1, NO, NO, 2, NO, NO, 3, NO, NO, 4, NO, NO, 5},
     {NO, NO, 6, NO, NO, 7, NO, NO, 8, NO, NO, 9, NO, NO, 10, NO},
     {NO, 11, NO, NO, 12, NO, NO, 13, NO, NO, 14, NO, NO, 15, NO, NO}},
    {{NO, 0, NO, NO, 1, NO, NO, 2, NO, NO, 3, NO, NO, 4, NO, NO},
     {5, NO, NO, 6, NO, NO, 7, NO, NO, 8, NO, NO, 9, NO, NO, 10},
     {NO, NO, 11, NO, NO, 12, NO, NO, 13, NO, NO, 14, NO, NO, 15, NO}},
    {{NO, NO, 0, NO, NO, 1, NO, NO, 2, NO, NO, 3, NO, NO, 4, NO},
     {NO, 5, NO, NO, 6, NO, NO, 7, NO, NO, 8, NO, NO, 9, NO, NO},
     {10, NO, NO, 11, NO, NO, 12, NO, NO, 13, NO, NO, 14, NO, NO, 15}},
};

static inline __m128i pick_of(int color, int piece)
{
    return _mm_loadu_si128((const __m128i *)picks[color][piece]);
}

/* ---- AVX2. ---- */

struct rgb_avx2 {
    __m256i color[3];
};

AVX2 static inline void put_avx2(const struct rgb_avx2 *in, uint8_t *rgb)
{
    for (int piece = 0; piece < PIECES; piece++) {
        __m256i out = _mm256_setzero_si256();
        for (int color = 0; color < 3; color++)
            out = _mm256_or_si256(
                out, _mm256_shuffle_epi8(in->color[color],
                                         _mm256_broadcastsi128_si256(pick_of(color, piece))));
        uint8_t *target = rgb + piece * LANE_BYTES;
        _mm_storeu_si128((__m128i *)target, _mm256_castsi256_si128(out));
        _mm_storeu_si128((__m128i *)(target + PIECES * LANE_BYTES),
                         _mm256_extracti128_si256(out, 1));
    }
}

/* (factor * value + 2^15) >> 16; the product's upper half is one instruction. */
AVX2 static inline __m256i scale_avx2(__m256i value, int16_t factor)
{
    __m256i high = _mm256_mulhi_epi16(_mm256_add_epi16(value, value), _mm256_set1_epi16(factor));
    return _mm256_srai_epi16(_mm256_add_epi16(high, _mm256_set1_epi16(1)), 1);
}

AVX2 static inline __m256i green_avx2(__m256i blue, __m256i red)
{
    const __m256i factors =
        _mm256_set1_epi32((int32_t)((uint32_t)COLOR_GREEN_REST << 16 | (uint16_t)-COLOR_CB_TO_G));
    const __m256i half = _mm256_set1_epi32(COLOR_ONE / 2);
    __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(blue, red), factors);
    __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(blue, red), factors);
    low = _mm256_srai_epi32(_mm256_add_epi32(low, half), 16);
    high = _mm256_srai_epi32(_mm256_add_epi32(high, half), 16);
    return _mm256_packs_epi32(low, high);
}

/* Sixteen pixels of 16 bits. */
AVX2 static inline struct rgb_avx2 convert_avx2(__m256i y, __m256i cb, __m256i cr)
{
    const __m256i middle = _mm256_set1_epi16(128);
    __m256i blue = _mm256_sub_epi16(cb, middle), red = _mm256_sub_epi16(cr, middle);
    __m256i r = _mm256_add_epi16(red, scale_avx2(red, COLOR_RED_REST));
    __m256i g = _mm256_sub_epi16(green_avx2(blue, red), red);
    __m256i b = _mm256_add_epi16(_mm256_add_epi16(blue, blue), scale_avx2(blue, COLOR_BLUE_REST));
    return (struct rgb_avx2){
        {_mm256_add_epi16(y, r), _mm256_add_epi16(y, g), _mm256_add_epi16(y, b)}};
}

AVX2 static void ycbcr_avx2(const uint8_t *luma, const uint8_t *chroma_blue,
                            const uint8_t *chroma_red, uint8_t *rgb)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i y = _mm256_loadu_si256((const __m256i *)luma);
    __m256i cb = _mm256_loadu_si256((const __m256i *)chroma_blue);
    __m256i cr = _mm256_loadu_si256((const __m256i *)chroma_red);
    struct rgb_avx2 low =
        convert_avx2(_mm256_unpacklo_epi8(y, zero), _mm256_unpacklo_epi8(cb, zero),
                     _mm256_unpacklo_epi8(cr, zero));
    struct rgb_avx2 high =
        convert_avx2(_mm256_unpackhi_epi8(y, zero), _mm256_unpackhi_epi8(cb, zero),
                     _mm256_unpackhi_epi8(cr, zero));
    struct rgb_avx2 packed;
    for (int color = 0; color < 3; color++)
        packed.color[color] = _mm256_packus_epi16(low.color[color], high.color[color]);
    put_avx2(&packed, rgb);
}

AVX2 static void planes_avx2(const uint8_t *r, const uint8_t *g, const uint8_t *b, uint8_t *rgb)
{
    struct rgb_avx2 in = {{_mm256_loadu_si256((const __m256i *)r),
                           _mm256_loadu_si256((const __m256i *)g),
                           _mm256_loadu_si256((const __m256i *)b)}};
    put_avx2(&in, rgb);
}

const struct color_blocks color_blocks_avx2 = {
    .pixels = AVX2_PIXELS, .from_ycbcr = ycbcr_avx2, .from_rgb = planes_avx2};

/* ---- AVX-512. ---- */

struct rgb_avx512 {
    __m512i color[3];
};

AVX512 static inline void put_avx512(const struct rgb_avx512 *in, uint8_t *rgb)
{
    for (int piece = 0; piece < PIECES; piece++) {
        __m512i out = _mm512_setzero_si512();
        for (int color = 0; color < 3; color++)
            out = _mm512_or_si512(
                out, _mm512_shuffle_epi8(in->color[color],
                                         _mm512_broadcast_i32x4(pick_of(color, piece))));
        uint8_t *target = rgb + piece * LANE_BYTES;
        _mm_storeu_si128((__m128i *)target, _mm512_castsi512_si128(out));
        target += PIECES * LANE_BYTES;
        _mm_storeu_si128((__m128i *)target, _mm512_extracti32x4_epi32(out, 1));
        target += PIECES * LANE_BYTES;
        _mm_storeu_si128((__m128i *)target, _mm512_extracti32x4_epi32(out, 2));
        target += PIECES * LANE_BYTES;
        _mm_storeu_si128((__m128i *)target, _mm512_extracti32x4_epi32(out, 3));
    }
}

AVX512 static inline __m512i scale_avx512(__m512i value, int16_t factor)
{
    __m512i high = _mm512_mulhi_epi16(_mm512_add_epi16(value, value), _mm512_set1_epi16(factor));
    return _mm512_srai_epi16(_mm512_add_epi16(high, _mm512_set1_epi16(1)), 1);
}

AVX512 static inline __m512i green_avx512(__m512i blue, __m512i red)
{
    const __m512i factors =
        _mm512_set1_epi32((int32_t)((uint32_t)COLOR_GREEN_REST << 16 | (uint16_t)-COLOR_CB_TO_G));
    const __m512i half = _mm512_set1_epi32(COLOR_ONE / 2);
    __m512i low = _mm512_madd_epi16(_mm512_unpacklo_epi16(blue, red), factors);
    __m512i high = _mm512_madd_epi16(_mm512_unpackhi_epi16(blue, red), factors);
    low = _mm512_srai_epi32(_mm512_add_epi32(low, half), 16);
    high = _mm512_srai_epi32(_mm512_add_epi32(high, half), 16);
    return _mm512_packs_epi32(low, high);
}

/* Thirty-two pixels of 16 bits. */
AVX512 static inline struct rgb_avx512 convert_avx512(__m512i y, __m512i cb, __m512i cr)
{
    const __m512i middle = _mm512_set1_epi16(128);
    __m512i blue = _mm512_sub_epi16(cb, middle), red = _mm512_sub_epi16(cr, middle);
    __m512i r = _mm512_add_epi16(red, scale_avx512(red, COLOR_RED_REST));
    __m512i g = _mm512_sub_epi16(green_avx512(blue, red), red);
    __m512i b = _mm512_add_epi16(_mm512_add_epi16(blue, blue), scale_avx512(blue, COLOR_BLUE_REST));
    return (struct rgb_avx512){
        {_mm512_add_epi16(y, r), _mm512_add_epi16(y, g), _mm512_add_epi16(y, b)}};
}

AVX512 static void ycbcr_avx512(const uint8_t *luma, const uint8_t *chroma_blue,
                                const uint8_t *chroma_red, uint8_t *rgb)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i y = _mm512_loadu_si512(luma);
    __m512i cb = _mm512_loadu_si512(chroma_blue);
    __m512i cr = _mm512_loadu_si512(chroma_red);
    struct rgb_avx512 low =
        convert_avx512(_mm512_unpacklo_epi8(y, zero), _mm512_unpacklo_epi8(cb, zero),
                       _mm512_unpacklo_epi8(cr, zero));
    struct rgb_avx512 high =
        convert_avx512(_mm512_unpackhi_epi8(y, zero), _mm512_unpackhi_epi8(cb, zero),
                       _mm512_unpackhi_epi8(cr, zero));
    struct rgb_avx512 packed;
    for (int color = 0; color < 3; color++)
        packed.color[color] = _mm512_packus_epi16(low.color[color], high.color[color]);
    put_avx512(&packed, rgb);
}

AVX512 static void planes_avx512(const uint8_t *r, const uint8_t *g, const uint8_t *b, uint8_t *rgb)
{
    struct rgb_avx512 in = {{_mm512_loadu_si512(r), _mm512_loadu_si512(g), _mm512_loadu_si512(b)}};
    put_avx512(&in, rgb);
}

const struct color_blocks color_blocks_avx512 = {
    .pixels = AVX512_PIXELS, .from_ycbcr = ycbcr_avx512, .from_rgb = planes_avx512};

#endif
