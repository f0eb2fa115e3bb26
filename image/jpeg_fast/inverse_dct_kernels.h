/*
 * inverse_dct_kernels — constants, arguments and kernels of inverse_dct.h.
 *
 * A pass transforms eight values in_0..in_7 to out_n = even_n + odd_n and out_(7-n) = even_n -
 * odd_n, for n = 0..3, where even_n and odd_n are sums of products of the even and odd inputs.
 * These are the products of jpeg_idct_islow, multiplied out: exact integers, so the sums are equal.
 */
#ifndef MILLRACE_IMAGE_JPEG_FAST_INVERSE_DCT_KERNELS_H
#define MILLRACE_IMAGE_JPEG_FAST_INVERSE_DCT_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* in_0 and in_4; in_2 and in_6 */
    DCT_ONE = 8192,
    DCT_EVEN_2 = 10703, /* 4433 + 6270 */
    DCT_EVEN_6 = 4433,
    DCT_EVEN_26 = -10704, /* 4433 - 15137: in_6 of even_1 */
    /* in_1, in_3, in_5 and in_7 of odd_0, odd_1, odd_2 and odd_3 */
    DCT_ODD_0_1 = 11363,
    DCT_ODD_0_3 = 9633,
    DCT_ODD_0_5 = 6437,
    DCT_ODD_0_7 = 2260,
    DCT_ODD_1_1 = 9633,
    DCT_ODD_1_3 = -2259,
    DCT_ODD_1_5 = -11362,
    DCT_ODD_1_7 = -6436,
    DCT_ODD_2_1 = 6437,
    DCT_ODD_2_3 = -11362,
    DCT_ODD_2_5 = 2261,
    DCT_ODD_2_7 = 9633,
    DCT_ODD_3_1 = 2260,
    DCT_ODD_3_3 = -6436,
    DCT_ODD_3_5 = 9633,
    DCT_ODD_3_7 = -11363,
    DCT_COLUMN_SHIFT = 11, /* after the first pass */
    DCT_ROW_SHIFT = 18,    /* after the second */
    DCT_RESULT_MIN = -512, /* of the second pass; 0 is mid-gray */
    DCT_RESULT_MAX = 511,
    DCT_GRAY = 128,
};

enum {
    /* The passes keep to 16 bits if no dequantized coefficient exceeds this: a value after the
     * first pass is at most 29.9 times the largest coefficient of its column, 32741. */
    INVERSE_DCT_COEFFICIENT_MAX = 1095,
    INVERSE_DCT_QUANT_MAX = INVERSE_DCT_COEFFICIENT_MAX,
};

/* In natural order. Immutable after inverse_dct_quant_init. */
struct inverse_dct_quant {
    _Alignas(64) int16_t factor[64];
    _Alignas(64) uint16_t limit[64]; /* on a coefficient before dequantization */
};

/* A block of 8 x 8 coefficients, 32-byte aligned, and its top left sample. */
struct inverse_dct_block {
    int16_t *coefficient;
    uint8_t *target;
};

/* The contract of inverse_dct (inverse_dct.h). */
typedef bool inverse_dct_kernel(const struct inverse_dct_quant *quant,
                                const struct inverse_dct_block *blocks, uint32_t count,
                                size_t stride_bytes);

#ifdef __x86_64__
inverse_dct_kernel inverse_dct_avx2, inverse_dct_avx512;
#endif
#ifdef __aarch64__
inverse_dct_kernel inverse_dct_neon;
#endif

#endif
