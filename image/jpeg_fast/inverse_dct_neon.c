/*
 * inverse_dct_neon — 64-bit ARM (inverse_dct_kernels.h): a vector holds a row, later a column, of
 * one block.
 */
#ifdef __aarch64__

#include "image/jpeg_fast/inverse_dct_kernels.h"

#include <arm_neon.h>
#include <string.h>

/* Transforms four lanes. out: 32-bit results before the shift, with `half` added. */
static inline void transform_half(const int16x4_t *in, int32x4_t half, int32x4_t *out)
{
    static const int16_t odd_factors[4][4] = {
        {DCT_ODD_0_1, DCT_ODD_0_3, DCT_ODD_0_5, DCT_ODD_0_7},
        {DCT_ODD_1_1, DCT_ODD_1_3, DCT_ODD_1_5, DCT_ODD_1_7},
        {DCT_ODD_2_1, DCT_ODD_2_3, DCT_ODD_2_5, DCT_ODD_2_7},
        {DCT_ODD_3_1, DCT_ODD_3_3, DCT_ODD_3_5, DCT_ODD_3_7},
    };
    int32x4_t first = vmlal_n_s16(half, in[0], DCT_ONE);
    int32x4_t sum = vmlal_n_s16(first, in[4], DCT_ONE);
    int32x4_t difference = vmlsl_n_s16(first, in[4], DCT_ONE);
    int32x4_t outer = vmlal_n_s16(vmull_n_s16(in[2], DCT_EVEN_2), in[6], DCT_EVEN_6);
    int32x4_t inner = vmlal_n_s16(vmull_n_s16(in[2], DCT_EVEN_6), in[6], DCT_EVEN_26);
    int32x4_t even[4] = {vaddq_s32(sum, outer), vaddq_s32(difference, inner),
                         vsubq_s32(difference, inner), vsubq_s32(sum, outer)};
    for (int n = 0; n < 4; n++) {
        int32x4_t odd = vmull_n_s16(in[1], odd_factors[n][0]);
        for (int i = 1; i < 4; i++)
            odd = vmlal_n_s16(odd, in[2 * i + 1], odd_factors[n][i]);
        out[n] = vaddq_s32(even[n], odd);
        out[7 - n] = vsubq_s32(even[n], odd);
    }
}

/* Transforms x[0..7] of each lane. Adds `offset` to the results. */
static inline void transform(int16x8_t *x, int shift, int offset)
{
    int32x4_t half = vdupq_n_s32((1 << (shift - 1)) + offset * (1 << shift)), low[8], high[8];
    int16x4_t in[8];
    for (int n = 0; n < 8; n++)
        in[n] = vget_low_s16(x[n]);
    transform_half(in, half, low);
    for (int n = 0; n < 8; n++)
        in[n] = vget_high_s16(x[n]);
    transform_half(in, half, high);
    for (int n = 0; n < 8; n++)
        x[n] = vcombine_s16(vqmovn_s32(vshlq_s32(low[n], vdupq_n_s32(-shift))),
                            vqmovn_s32(vshlq_s32(high[n], vdupq_n_s32(-shift))));
}

static inline void transpose(int16x8_t *x)
{
    int32x4_t quads[8];
    for (int i = 0; i < 4; i++) {
        int16x8x2_t pairs = vtrnq_s16(x[2 * i], x[2 * i + 1]);
        quads[2 * i] = vreinterpretq_s32_s16(pairs.val[0]);
        quads[2 * i + 1] = vreinterpretq_s32_s16(pairs.val[1]);
    }
    for (int i = 0; i < 2; i++) {
        int32x4x2_t top = vtrnq_s32(quads[i], quads[i + 2]);
        int32x4x2_t bottom = vtrnq_s32(quads[i + 4], quads[i + 6]);
        for (int k = 0; k < 2; k++) {
            int64x2_t a = vreinterpretq_s64_s32(top.val[k]);
            int64x2_t b = vreinterpretq_s64_s32(bottom.val[k]);
            x[i + 2 * k] = vreinterpretq_s16_s64(vtrn1q_s64(a, b));
            x[i + 2 * k + 4] = vreinterpretq_s16_s64(vtrn2q_s64(a, b));
        }
    }
}

/* Returns bits that are zero if the block is in range. */
static inline uint16x8_t transform_block(const struct inverse_dct_quant *quant,
                                         const struct inverse_dct_block *block, size_t stride_bytes)
{
    int16x8_t x[8];
    uint16x8_t excess = vdupq_n_u16(0), results = vdupq_n_u16(0);
    for (int row = 0; row < 8; row++) {
        int16x8_t coefficient = vld1q_s16(block->coefficient + 8 * row);
        uint16x8_t size = vreinterpretq_u16_s16(vabsq_s16(coefficient));
        excess = vorrq_u16(excess, vqsubq_u16(size, vld1q_u16(quant->limit + 8 * row)));
        x[row] = vmulq_s16(coefficient, vld1q_s16(quant->factor + 8 * row));
    }
    memset(block->coefficient, 0, 64 * sizeof block->coefficient[0]);
    transform(x, DCT_COLUMN_SHIFT, 0);
    transpose(x);
    transform(x, DCT_ROW_SHIFT, -DCT_RESULT_MIN);
    transpose(x);
    for (int row = 0; row < 8; row++) {
        uint16x8_t result = vreinterpretq_u16_s16(x[row]);
        results = vorrq_u16(results, result);
        result = vqsubq_u16(result, vdupq_n_u16(-DCT_RESULT_MIN - DCT_GRAY));
        vst1_u8(block->target + (size_t)row * stride_bytes, vqmovn_u16(result));
    }
    return vorrq_u16(excess, vbicq_u16(results, vdupq_n_u16(DCT_RESULT_MAX - DCT_RESULT_MIN)));
}

bool inverse_dct_neon(const struct inverse_dct_quant *quant, const struct inverse_dct_block *blocks,
                      uint32_t count, size_t stride_bytes)
{
    uint16x8_t out_of_range = vdupq_n_u16(0);
    for (uint32_t i = 0; i < count; i++)
        out_of_range = vorrq_u16(out_of_range, transform_block(quant, &blocks[i], stride_bytes));
    return vmaxvq_u16(out_of_range) == 0;
}

#endif
