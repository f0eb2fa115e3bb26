/*
 * enlarge_x86 — AVX2 and AVX-512 blocks (enlarge_block.h).
 *
 * An output is near + ((2 * (far - near) * factor + 2^14) >> 15): multiplying with rounding is one
 * instruction, and adding bytes wraps around to the exact result.
 */
#ifdef __x86_64__

#include "image/kernels/enlarge_block.h"

#include <immintrin.h>

enum { MINUS_TWO_PLUS_TWO = 0x02fe }; /* two bytes: the doubled difference of a pair */

/* ---- AVX2: 16 outputs from a window of 16 bytes. ---- */

__attribute__((target("avx2"))) static void run_avx2(const struct enlarge_plan *plan,
                                                     const uint8_t *source, uint8_t *target)
{
    enum { BLOCK = sizeof(__m256i) };
    const __m256i difference = _mm256_set1_epi16(MINUS_TWO_PLUS_TWO);
    const __m256i low_bytes = _mm256_set1_epi16(0xff);
    for (uint32_t block = 0; block < plan->blocks; block++) {
        const uint32_t *window = plan->window + 2 * (size_t)block;
        const __m256i *factors = (const __m256i *)(plan->factor + (size_t)block * BLOCK);
        __m256i index = _mm256_loadu_si256((const __m256i *)(plan->index + (size_t)block * BLOCK));
        const uint8_t *lower = source + window[0], *upper = source + window[1];
        __m256i near = _mm256_loadu2_m128i((const __m128i *)upper, (const __m128i *)lower);
        __m256i far = _mm256_loadu2_m128i((const __m128i *)(upper + plan->channels),
                                          (const __m128i *)(lower + plan->channels));
        near = _mm256_shuffle_epi8(near, index);
        far = _mm256_shuffle_epi8(far, index);
        __m256i low = _mm256_maddubs_epi16(_mm256_unpacklo_epi8(near, far), difference);
        __m256i high = _mm256_maddubs_epi16(_mm256_unpackhi_epi8(near, far), difference);
        low = _mm256_mulhrs_epi16(low, _mm256_loadu_si256(factors));
        high = _mm256_mulhrs_epi16(high, _mm256_loadu_si256(factors + 1));
        __m256i change = _mm256_packus_epi16(_mm256_and_si256(low, low_bytes),
                                             _mm256_and_si256(high, low_bytes));
        _mm256_storeu_si256((__m256i *)(target + enlarge_block_begin(plan, block, BLOCK)),
                            _mm256_add_epi8(near, change));
    }
}

const struct enlarge_blocks enlarge_blocks_avx2 = {
    .block_bytes = sizeof(__m256i), .window_bytes = ENLARGE_LANE_BYTES, .run = run_avx2};

/* ---- AVX-512: 64 outputs from a window of 64 bytes. ---- */

__attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi"))) static void
run_avx512(const struct enlarge_plan *plan, const uint8_t *source, uint8_t *target)
{
    enum { BLOCK = sizeof(__m512i) };
    const __m512i difference = _mm512_set1_epi16(MINUS_TWO_PLUS_TWO);
    const __m512i low_bytes = _mm512_set1_epi16(0xff);
    for (uint32_t block = 0; block < plan->blocks; block++) {
        const int16_t *factors = plan->factor + (size_t)block * BLOCK;
        const uint8_t *window = source + plan->window[block];
        __m512i index = _mm512_loadu_si512(plan->index + (size_t)block * BLOCK);
        __m512i near = _mm512_permutexvar_epi8(index, _mm512_loadu_si512(window));
        __m512i far = _mm512_permutexvar_epi8(index, _mm512_loadu_si512(window + plan->channels));
        __m512i low = _mm512_maddubs_epi16(_mm512_unpacklo_epi8(near, far), difference);
        __m512i high = _mm512_maddubs_epi16(_mm512_unpackhi_epi8(near, far), difference);
        low = _mm512_mulhrs_epi16(low, _mm512_loadu_si512(factors));
        high = _mm512_mulhrs_epi16(high, _mm512_loadu_si512(factors + BLOCK / 2));
        __m512i change = _mm512_packus_epi16(_mm512_and_si512(low, low_bytes),
                                             _mm512_and_si512(high, low_bytes));
        _mm512_storeu_si512(target + enlarge_block_begin(plan, block, BLOCK),
                            _mm512_add_epi8(near, change));
    }
}

const struct enlarge_blocks enlarge_blocks_avx512 = {
    .block_bytes = sizeof(__m512i), .window_bytes = sizeof(__m512i), .run = run_avx512};

#endif
