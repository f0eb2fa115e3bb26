/*
 * color_x86 — AVX2 and AVX-512 blocks (color_block.h).
 *
 * Bytes are widened within 16-byte lanes, and packing undoes that. AVX2 also interleaves within
 * lanes: a lane's 16 pixels become three pieces of 16 bytes, and each shuffle picks a byte or
 * leaves zero. AVX-512 picks bytes from whole vectors. color_x86.inc holds the code for both
 * vector lengths.
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

/* ---- AVX2. ---- */

#define TARGET  __attribute__((target("avx2")))
#define VECTOR  __m256i
#define NAME(x) x##_avx2
#define OP(x)   _mm256_##x
#define BITS(x) _mm256_##x##_si256

struct rgb_avx2 {
    VECTOR color[3];
};

TARGET static inline void put_avx2(const struct rgb_avx2 *in, uint8_t *rgb)
{
    __m256i piece[PIECES], *target = (__m256i *)rgb;
    for (int p = 0; p < PIECES; p++) {
        piece[p] = _mm256_setzero_si256();
        for (int color = 0; color < 3; color++) {
            __m128i mask = _mm_loadu_si128((const __m128i *)shuffle_masks[color][p]);
            piece[p] = _mm256_or_si256(
                piece[p], _mm256_shuffle_epi8(in->color[color], _mm256_broadcastsi128_si256(mask)));
        }
    }
    /* in memory: the lower lane's pieces, then the upper lane's */
    _mm256_storeu_si256(target, _mm256_permute2x128_si256(piece[0], piece[1], 0x20));
    _mm256_storeu_si256(target + 1, _mm256_permute2x128_si256(piece[2], piece[0], 0x30));
    _mm256_storeu_si256(target + 2, _mm256_permute2x128_si256(piece[1], piece[2], 0x31));
}

#include "image/kernels/color_x86.inc"

#undef TARGET
#undef VECTOR
#undef NAME
#undef OP
#undef BITS

/* ---- AVX-512. ---- */

#define TARGET  __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi")))
#define VECTOR  __m512i
#define NAME(x) x##_avx512
#define OP(x)   _mm512_##x
#define BITS(x) _mm512_##x##_si512

struct rgb_avx512 {
    VECTOR color[3];
};

enum { AVX512_BYTES = 64 };

/* [piece][byte]: the pixel; for green, AVX512_BYTES more. */
#define PICK(byte)   ((byte) / 3 + ((byte) % 3 == 1 ? AVX512_BYTES : 0))
#define PICK4(byte)  PICK(byte), PICK((byte) + 1), PICK((byte) + 2), PICK((byte) + 3)
#define PICK16(byte) PICK4(byte), PICK4((byte) + 4), PICK4((byte) + 8), PICK4((byte) + 12)
#define PICK64(byte) PICK16(byte), PICK16((byte) + 16), PICK16((byte) + 32), PICK16((byte) + 48)
static const uint8_t picks[PIECES][AVX512_BYTES] = {{PICK64(0)}, {PICK64(64)}, {PICK64(128)}};
/* Bit i of a piece: byte i is blue. */
static const uint64_t blue_bytes[PIECES] = {0x4924924924924924, 0x2492492492492492,
                                            0x9249249249249249};

TARGET static inline void put_avx512(const struct rgb_avx512 *in, uint8_t *rgb)
{
    for (int piece = 0; piece < PIECES; piece++) {
        __m512i pick = _mm512_loadu_si512(picks[piece]);
        __m512i out = _mm512_permutex2var_epi8(in->color[0], pick, in->color[1]);
        out = _mm512_mask_permutexvar_epi8(out, blue_bytes[piece], pick, in->color[2]);
        _mm512_storeu_si512(rgb + piece * AVX512_BYTES, out);
    }
}

#include "image/kernels/color_x86.inc"

#endif
