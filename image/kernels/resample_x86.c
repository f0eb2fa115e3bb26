/*
 * resample_x86 — AVX2 and AVX-512 tiles (resample_tile.h).
 *
 * The bytes of two rows are interleaved and widened to pairs of 16 bits; one instruction
 * multiplies a pair by its two coefficients and adds. Interleaving works within 16-byte lanes,
 * as do the packs that undo it after rounding. Transposes all lanes at once, like
 * resample_columns.c. resample_x86.inc holds the code for both vector lengths.
 */
#ifdef __x86_64__

#include "image/kernels/resample_tile.h"

#include <immintrin.h>
#include <string.h>

enum { LANE_BYTES = 16 };

/* Two taps of an output. An odd last tap is paired with its own row and a zero coefficient. */
struct tap_pair {
    int32_t coefficients;
    const uint8_t *row[2];
};

static inline struct tap_pair tap_pair_at(const int16_t *coefficients, const uint8_t *row,
                                          size_t stride_bytes, uint32_t tap, uint32_t taps)
{
    struct tap_pair pair = {.row = {row, tap + 1 < taps ? row + stride_bytes : row}};
    memcpy(&pair.coefficients, coefficients + tap, sizeof pair.coefficients);
    return pair;
}

/* ---- AVX2. ---- */

#define TARGET  __attribute__((target("avx2")))
#define VECTOR  __m256i
#define NAME(x) x##_avx2
#define OP(x)   _mm256_##x
#define BITS(x) _mm256_##x##_si256

TARGET static inline void store_part_avx2(uint8_t *target, __m128i lane, uint32_t bytes)
{
    memcpy(target, &lane, bytes);
}

#include "image/kernels/resample_x86.inc"

#undef TARGET
#undef VECTOR
#undef NAME
#undef OP
#undef BITS

/* ---- AVX-512. ---- */

#define TARGET  __attribute__((target("avx512f,avx512bw,avx512vl")))
#define VECTOR  __m512i
#define NAME(x) x##_avx512
#define OP(x)   _mm512_##x
#define BITS(x) _mm512_##x##_si512

TARGET static inline void store_part_avx512(uint8_t *target, __m128i lane, uint32_t bytes)
{
    _mm_mask_storeu_epi8(target, (__mmask16)((1u << bytes) - 1), lane);
}

#include "image/kernels/resample_x86.inc"

#endif
