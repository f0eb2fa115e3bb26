/*
 * resample_x86 — tiles by AVX2 and AVX-512. See resample_tile.h.
 *
 * Two rows at a time: their bytes are interleaved and widened to pairs of 16 bits, and one
 * instruction multiplies a pair by its two coefficients and adds. Interleaving works within 16-byte
 * lanes, and so do the packs that undo it after rounding. A transposition takes four rounds of
 * interleaving the first eight rows with the last eight, in all lanes at once.
 */
#ifdef __x86_64__

#include "image/kernels/resample_tile.h"

#include <immintrin.h>
#include <string.h>

enum { LANE_BYTES = 16, AVX2_COLUMNS = 32, AVX512_COLUMNS = 64 };

#define AVX2   __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

/* Two taps of an output. If the number of taps is odd, the last pair's second coefficient is zero
 * and reads the first tap's row. */
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

AVX2 static inline __m256i filter_avx2(const struct resample_tile *tile, uint32_t i)
{
    const int16_t *coefficients = resample_tile_coefficients(tile, i);
    const uint8_t *row = resample_tile_row(tile, i);
    size_t stride_bytes = tile->source->stride_bytes;
    uint32_t taps = tile->plan->taps[tile->output + i];
    const __m256i zero = _mm256_setzero_si256();
    __m256i sums[4];
    for (int k = 0; k < 4; k++)
        sums[k] = _mm256_set1_epi32(RESAMPLE_ROUNDING);
    for (uint32_t tap = 0; tap < taps; tap += 2, row += 2 * stride_bytes) {
        struct tap_pair pair = tap_pair_at(coefficients, row, stride_bytes, tap, taps);
        __m256i factors = _mm256_set1_epi32(pair.coefficients);
        __m256i a = _mm256_loadu_si256((const __m256i *)pair.row[0]);
        __m256i b = _mm256_loadu_si256((const __m256i *)pair.row[1]);
        __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
        __m256i wide[4] = {_mm256_unpacklo_epi8(low, zero), _mm256_unpackhi_epi8(low, zero),
                           _mm256_unpacklo_epi8(high, zero), _mm256_unpackhi_epi8(high, zero)};
        for (int k = 0; k < 4; k++)
            sums[k] = _mm256_add_epi32(sums[k], _mm256_madd_epi16(wide[k], factors));
    }
    for (int k = 0; k < 4; k++)
        sums[k] = _mm256_srai_epi32(sums[k], RESAMPLE_FRACTION_BITS);
    return _mm256_packus_epi16(_mm256_packs_epi32(sums[0], sums[1]),
                               _mm256_packs_epi32(sums[2], sums[3]));
}

AVX2 static inline void transpose_avx2(__m256i rows[16])
{
    __m256i next[16];
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 8; i++) {
            next[2 * i] = _mm256_unpacklo_epi8(rows[i], rows[i + 8]);
            next[2 * i + 1] = _mm256_unpackhi_epi8(rows[i], rows[i + 8]);
        }
        memcpy(rows, next, sizeof next);
    }
}

AVX2 static void run_avx2(const struct resample_tile *tile)
{
    size_t stride_bytes = tile->target_stride_bytes;
    __m256i rows[16];
    for (uint32_t i = 0; i < tile->outputs; i++) {
        __m256i line = filter_avx2(tile, i);
        if (tile->transposed)
            rows[i] = line;
        else
            _mm256_storeu_si256((__m256i *)(tile->target + i * stride_bytes), line);
    }
    if (!tile->transposed)
        return;
    for (uint32_t i = tile->outputs; i < RESAMPLE_TILE_OUTPUTS; i++)
        rows[i] = _mm256_setzero_si256();
    transpose_avx2(rows);
    for (uint32_t i = 0; i < 16; i++) {
        uint8_t lanes[AVX2_COLUMNS], *target = tile->target + i * stride_bytes;
        _mm256_storeu_si256((__m256i *)lanes, rows[i]);
        for (uint32_t lane = 0; lane < AVX2_COLUMNS / LANE_BYTES; lane++) {
            uint8_t *column = target + lane * LANE_BYTES * stride_bytes;
            if (tile->outputs == RESAMPLE_TILE_OUTPUTS)
                memcpy(column, lanes + lane * LANE_BYTES, LANE_BYTES);
            else
                memcpy(column, lanes + lane * LANE_BYTES, tile->outputs);
        }
    }
}

const struct resample_tiler resample_tiler_avx2 = {.columns = AVX2_COLUMNS, .run = run_avx2};

/* ---- AVX-512. ---- */

AVX512 static inline __m512i filter_avx512(const struct resample_tile *tile, uint32_t i)
{
    const int16_t *coefficients = resample_tile_coefficients(tile, i);
    const uint8_t *row = resample_tile_row(tile, i);
    size_t stride_bytes = tile->source->stride_bytes;
    uint32_t taps = tile->plan->taps[tile->output + i];
    const __m512i zero = _mm512_setzero_si512();
    __m512i sums[4];
    for (int k = 0; k < 4; k++)
        sums[k] = _mm512_set1_epi32(RESAMPLE_ROUNDING);
    for (uint32_t tap = 0; tap < taps; tap += 2, row += 2 * stride_bytes) {
        struct tap_pair pair = tap_pair_at(coefficients, row, stride_bytes, tap, taps);
        __m512i factors = _mm512_set1_epi32(pair.coefficients);
        __m512i a = _mm512_loadu_si512(pair.row[0]), b = _mm512_loadu_si512(pair.row[1]);
        __m512i low = _mm512_unpacklo_epi8(a, b), high = _mm512_unpackhi_epi8(a, b);
        __m512i wide[4] = {_mm512_unpacklo_epi8(low, zero), _mm512_unpackhi_epi8(low, zero),
                           _mm512_unpacklo_epi8(high, zero), _mm512_unpackhi_epi8(high, zero)};
        for (int k = 0; k < 4; k++)
            sums[k] = _mm512_add_epi32(sums[k], _mm512_madd_epi16(wide[k], factors));
    }
    for (int k = 0; k < 4; k++)
        sums[k] = _mm512_srai_epi32(sums[k], RESAMPLE_FRACTION_BITS);
    return _mm512_packus_epi16(_mm512_packs_epi32(sums[0], sums[1]),
                               _mm512_packs_epi32(sums[2], sums[3]));
}

AVX512 static inline void transpose_avx512(__m512i rows[16])
{
    __m512i next[16];
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 8; i++) {
            next[2 * i] = _mm512_unpacklo_epi8(rows[i], rows[i + 8]);
            next[2 * i + 1] = _mm512_unpackhi_epi8(rows[i], rows[i + 8]);
        }
        memcpy(rows, next, sizeof next);
    }
}

AVX512 static void run_avx512(const struct resample_tile *tile)
{
    size_t stride_bytes = tile->target_stride_bytes;
    __m512i rows[16];
    for (uint32_t i = 0; i < tile->outputs; i++) {
        __m512i line = filter_avx512(tile, i);
        if (tile->transposed)
            rows[i] = line;
        else
            _mm512_storeu_si512(tile->target + i * stride_bytes, line);
    }
    if (!tile->transposed)
        return;
    for (uint32_t i = tile->outputs; i < RESAMPLE_TILE_OUTPUTS; i++)
        rows[i] = _mm512_setzero_si512();
    transpose_avx512(rows);
    __mmask16 written = (__mmask16)((1u << tile->outputs) - 1);
    for (uint32_t i = 0; i < 16; i++) {
        uint8_t *target = tile->target + i * stride_bytes;
        __m128i lanes[AVX512_COLUMNS / LANE_BYTES];
        _mm512_storeu_si512(lanes, rows[i]);
        for (uint32_t lane = 0; lane < AVX512_COLUMNS / LANE_BYTES;
             lane++, target += LANE_BYTES * stride_bytes) {
            if (tile->outputs == RESAMPLE_TILE_OUTPUTS)
                _mm_storeu_si128((__m128i *)target, lanes[lane]);
            else
                _mm_mask_storeu_epi8(target, written, lanes[lane]);
        }
    }
}

const struct resample_tiler resample_tiler_avx512 = {.columns = AVX512_COLUMNS, .run = run_avx512};

#endif
