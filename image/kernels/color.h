/*
 * color — integer conversion of planes to interleaved RGB (ITU-T T.871, JFIF; libjpeg's 16-bit
 * constants).
 */
#ifndef MILLRACE_IMAGE_KERNELS_COLOR_H
#define MILLRACE_IMAGE_KERNELS_COLOR_H

#include "image/kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

/* Convert count pixels of full-range YCbCr, of R, G and B, or of gray to RGB bytes. The
 * processor must have the kernels. All kernels give the same bytes. */
void color_ycbcr_to_rgb(enum image_kernels kernels, const uint8_t *y, const uint8_t *cb,
                        const uint8_t *cr, uint8_t *rgb, size_t count);
void color_planes_to_rgb(enum image_kernels kernels, const uint8_t *r, const uint8_t *g,
                         const uint8_t *b, uint8_t *rgb, size_t count);
void color_gray_to_rgb(enum image_kernels kernels, const uint8_t *gray, uint8_t *rgb, size_t count);

#endif
