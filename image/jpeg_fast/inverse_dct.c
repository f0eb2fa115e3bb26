/*
 * inverse_dct — plain C, and the choice of kernels (inverse_dct.h).
 */
#include "image/jpeg_fast/inverse_dct.h"

#include <stdlib.h>
#include <string.h>

bool inverse_dct_quant_init(struct inverse_dct_quant *quant, const uint16_t *factors)
{
    for (int i = 0; i < 64; i++) {
        if (factors[i] > INVERSE_DCT_QUANT_MAX)
            return false;
        quant->factor[i] = (int16_t)factors[i];
        quant->limit[i] = factors[i] ? INVERSE_DCT_COEFFICIENT_MAX / factors[i] : UINT16_MAX;
    }
    return true;
}

/* Transforms eight values at the distance `step`. */
static void transform(const int16_t *in, int step, int shift, int32_t *out)
{
    int32_t half = 1 << (shift - 1), in_0 = in[0] * DCT_ONE + half, in_4 = in[4 * step] * DCT_ONE;
    int32_t in_1 = in[step], in_2 = in[2 * step], in_3 = in[3 * step], in_5 = in[5 * step];
    int32_t in_6 = in[6 * step], in_7 = in[7 * step];
    int32_t even[] = {
        in_0 + in_4 + in_2 * DCT_EVEN_2 + in_6 * DCT_EVEN_6,
        in_0 - in_4 + in_2 * DCT_EVEN_6 + in_6 * DCT_EVEN_26,
        in_0 - in_4 - in_2 * DCT_EVEN_6 - in_6 * DCT_EVEN_26,
        in_0 + in_4 - in_2 * DCT_EVEN_2 - in_6 * DCT_EVEN_6,
    };
    int32_t odd[] = {
        in_1 * DCT_ODD_0_1 + in_3 * DCT_ODD_0_3 + in_5 * DCT_ODD_0_5 + in_7 * DCT_ODD_0_7,
        in_1 * DCT_ODD_1_1 + in_3 * DCT_ODD_1_3 + in_5 * DCT_ODD_1_5 + in_7 * DCT_ODD_1_7,
        in_1 * DCT_ODD_2_1 + in_3 * DCT_ODD_2_3 + in_5 * DCT_ODD_2_5 + in_7 * DCT_ODD_2_7,
        in_1 * DCT_ODD_3_1 + in_3 * DCT_ODD_3_3 + in_5 * DCT_ODD_3_5 + in_7 * DCT_ODD_3_7,
    };
    for (int n = 0; n < 4; n++) {
        out[n] = (even[n] + odd[n]) >> shift;
        out[7 - n] = (even[n] - odd[n]) >> shift;
    }
}

static bool dequantize(const struct inverse_dct_quant *quant, int16_t *coefficient, int16_t *out)
{
    bool in_range = true;
    for (int i = 0; i < 64; i++) {
        in_range &= abs(coefficient[i]) <= quant->limit[i];
        out[i] = (int16_t)(uint16_t)(coefficient[i] * quant->factor[i]);
    }
    memset(coefficient, 0, 64 * sizeof coefficient[0]);
    return in_range;
}

static bool transform_rows(const int16_t *columns, uint8_t *target, size_t stride_bytes)
{
    bool in_range = true;
    for (int row = 0; row < 8; row++) {
        int32_t out[8];
        transform(columns + row * 8, 1, DCT_ROW_SHIFT, out);
        for (size_t i = 0; i < 8; i++) {
            int32_t sample = out[i] + DCT_GRAY;
            in_range &= out[i] >= DCT_RESULT_MIN && out[i] <= DCT_RESULT_MAX;
            target[(size_t)row * stride_bytes + i] = (uint8_t)(sample < 0     ? 0
                                                               : sample > 255 ? 255
                                                                              : sample);
        }
    }
    return in_range;
}

static bool inverse_dct_plain(const struct inverse_dct_quant *quant,
                              const struct inverse_dct_block *blocks, uint32_t count,
                              size_t stride_bytes)
{
    bool in_range = true;
    for (uint32_t i = 0; i < count; i++) {
        int16_t in[64], columns[64];
        in_range &= dequantize(quant, blocks[i].coefficient, in);
        for (int column = 0; column < 8; column++) {
            int32_t out[8];
            transform(in + column, 8, DCT_COLUMN_SHIFT, out);
            for (int row = 0; row < 8; row++)
                columns[row * 8 + column] = (int16_t)out[row];
        }
        in_range &= transform_rows(columns, blocks[i].target, stride_bytes);
    }
    return in_range;
}

bool inverse_dct(enum image_kernels kernels, const struct inverse_dct_quant *quant,
                 const struct inverse_dct_block *blocks, uint32_t count, size_t stride_bytes)
{
    switch (kernels) {
#ifdef __x86_64__
    case IMAGE_KERNELS_AVX512:
        return inverse_dct_avx512(quant, blocks, count, stride_bytes);
    case IMAGE_KERNELS_AVX2:
        return inverse_dct_avx2(quant, blocks, count, stride_bytes);
#endif
#ifdef __aarch64__
    case IMAGE_KERNELS_NEON:
        return inverse_dct_neon(quant, blocks, count, stride_bytes);
#endif
    default:
        return inverse_dct_plain(quant, blocks, count, stride_bytes);
    }
}
