/*
 * inverse_dct_x86 — AVX2 and AVX-512 (inverse_dct_kernels.h): each 16-byte lane holds a row, later
 * a column, of a block of its own. inverse_dct_x86.inc holds the code for both vector lengths.
 */
#ifdef __x86_64__

#include "image/jpeg_fast/inverse_dct_kernels.h"

#include <immintrin.h>

static inline __m128i row_of(const struct inverse_dct_block *block, int index)
{
    return _mm_load_si128((const __m128i *)(block->coefficient + index));
}

/* Stores two rows of eight samples. */
static inline void store_rows(uint8_t *target, size_t stride_bytes, __m128i rows)
{
    _mm_storel_epi64((__m128i *)target, rows);
    _mm_storeh_pi((__m64 *)(target + stride_bytes), _mm_castsi128_ps(rows));
}

/* ---- AVX2. ---- */

#define TARGET  __attribute__((target("avx2")))
#define VECTOR  __m256i
#define LANES   2
#define NAME(x) x##_avx2
#define OP(x)   _mm256_##x
#define BITS(x) _mm256_##x##_si256
#define REPEAT  _mm256_broadcastsi128_si256

TARGET static inline __m256i gather_lanes_avx2(const struct inverse_dct_block *blocks, int index)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(row_of(&blocks[0], index)),
                                   row_of(&blocks[1], index), 1);
}

TARGET static inline void store_lanes_avx2(const struct inverse_dct_block *blocks, size_t at,
                                           size_t stride_bytes, __m256i rows)
{
    store_rows(blocks[0].target + at, stride_bytes, _mm256_castsi256_si128(rows));
    store_rows(blocks[1].target + at, stride_bytes, _mm256_extracti128_si256(rows, 1));
}

TARGET static inline bool is_zero_avx2(__m256i x)
{
    return _mm256_testz_si256(x, x);
}

#include "image/jpeg_fast/inverse_dct_x86.inc"

#undef TARGET
#undef VECTOR
#undef LANES
#undef NAME
#undef OP
#undef BITS
#undef REPEAT

/* ---- AVX-512. ---- */

#define TARGET  __attribute__((target("avx512f,avx512bw,avx512vl")))
#define VECTOR  __m512i
#define LANES   4
#define NAME(x) x##_avx512
#define OP(x)   _mm512_##x
#define BITS(x) _mm512_##x##_si512
#define REPEAT  _mm512_broadcast_i32x4

TARGET static inline __m512i gather_lanes_avx512(const struct inverse_dct_block *blocks, int index)
{
    __m512i rows = _mm512_castsi128_si512(row_of(&blocks[0], index));
    rows = _mm512_inserti32x4(rows, row_of(&blocks[1], index), 1);
    rows = _mm512_inserti32x4(rows, row_of(&blocks[2], index), 2);
    return _mm512_inserti32x4(rows, row_of(&blocks[3], index), 3);
}

TARGET static inline void store_lanes_avx512(const struct inverse_dct_block *blocks, size_t at,
                                             size_t stride_bytes, __m512i rows)
{
    store_rows(blocks[0].target + at, stride_bytes, _mm512_castsi512_si128(rows));
    store_rows(blocks[1].target + at, stride_bytes, _mm512_extracti32x4_epi32(rows, 1));
    store_rows(blocks[2].target + at, stride_bytes, _mm512_extracti32x4_epi32(rows, 2));
    store_rows(blocks[3].target + at, stride_bytes, _mm512_extracti32x4_epi32(rows, 3));
}

TARGET static inline bool is_zero_avx512(__m512i x)
{
    return _mm512_test_epi32_mask(x, x) == 0;
}

#include "image/jpeg_fast/inverse_dct_x86.inc"

#endif
