/*
 * color_x86 — AVX2 and AVX-512 blocks (color_block.h).
 *
 * Bytes are widened within 16-byte lanes, and packing undoes that. Interleaving also works
 * within lanes: a lane's 16 pixels become three pieces of 16 bytes, and each shuffle picks a byte
 * or leaves zero. color_x86.inc holds the code for both vector lengths.
 */
#ifdef __x86_64__

#include "image/kernels/color_block.h"

#include <immintrin.h>

enum { LANE_BYTES = 16, PIECES = 3, NO = 0x80 };

/* [color][piece][byte]: the pixel's index in the lane, or NO if the byte belongs to another
 * color. */
static const uint8_t shuffle_masks[3][PIECES][LANE_BYTES] = {
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

static inline __m128i shuffle_mask(int color, int piece)
{
    return _mm_loadu_si128((const __m128i *)shuffle_masks[color][piece]);
}

static inline void store_lane(uint8_t *target, int lane, __m128i out)
{
    _mm_storeu_si128((__m128i *)(target + lane * PIECES * LANE_BYTES), out);
}

/* ---- AVX2. ---- */

#define TARGET  __attribute__((target("avx2")))
#define VECTOR  __m256i
#define NAME(x) x##_avx2
#define OP(x)   _mm256_##x
#define BITS(x) _mm256_##x##_si256
#define REPEAT  _mm256_broadcastsi128_si256

TARGET static inline void store_lanes_avx2(uint8_t *target, __m256i out)
{
    store_lane(target, 0, _mm256_castsi256_si128(out));
    store_lane(target, 1, _mm256_extracti128_si256(out, 1));
}

#include "image/kernels/color_x86.inc"

#undef TARGET
#undef VECTOR
#undef NAME
#undef OP
#undef BITS
#undef REPEAT

/* ---- AVX-512. ---- */

#define TARGET  __attribute__((target("avx512f,avx512bw,avx512vl")))
#define VECTOR  __m512i
#define NAME(x) x##_avx512
#define OP(x)   _mm512_##x
#define BITS(x) _mm512_##x##_si512
#define REPEAT  _mm512_broadcast_i32x4

TARGET static inline void store_lanes_avx512(uint8_t *target, __m512i out)
{
    store_lane(target, 0, _mm512_castsi512_si128(out));
    store_lane(target, 1, _mm512_extracti32x4_epi32(out, 1));
    store_lane(target, 2, _mm512_extracti32x4_epi32(out, 2));
    store_lane(target, 3, _mm512_extracti32x4_epi32(out, 3));
}

#include "image/kernels/color_x86.inc"

#endif
