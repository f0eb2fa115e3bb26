/*
 * inverse_dct — dequantizes blocks and transforms them to samples, to the bytes of libjpeg's
 * jpeg_idct_islow (Loeffler, Ligtenberg and Moschytz, 1989; 13-bit constants).
 *
 * libjpeg's C code and its SIMD code agree only while no intermediate value leaves 16 bits and no
 * result leaves -512..511. The transform reports blocks beyond that, and blocks so near that a
 * cheap test cannot exclude it; no picture contains any, unless its quantization is very coarse.
 * libjpeg's SIMD code also adds pairs of values in 16 bits in its second pass. The range of the
 * results bounds these sums too: each row's values are the forward transform of its results.
 */
#ifndef MILLRACE_IMAGE_JPEG_FAST_INVERSE_DCT_H
#define MILLRACE_IMAGE_JPEG_FAST_INVERSE_DCT_H

#include "image/jpeg_fast/inverse_dct_kernels.h"
#include "image/kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False if a factor exceeds INVERSE_DCT_QUANT_MAX. quant: 64 factors in natural order. */
bool inverse_dct_quant_init(struct inverse_dct_quant *quant, const uint16_t *factors);

/* Transforms count blocks and sets their coefficients to zero. Rows of samples are stride_bytes
 * apart. False: a block is out of range; the samples are then undefined. */
bool inverse_dct(enum image_kernels kernels, const struct inverse_dct_quant *quant,
                 const struct inverse_dct_block *blocks, uint32_t count, size_t stride_bytes);

#endif
