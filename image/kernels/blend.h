/*
 * blend — weighted sum of two pictures' bytes, for mixup.
 */
#ifndef MILLRACE_IMAGE_KERNELS_BLEND_H
#define MILLRACE_IMAGE_KERNELS_BLEND_H

#include "image/kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

enum { BLEND_ONE = 256 };

/* target = (target * target_weight + source * (BLEND_ONE - target_weight)) / BLEND_ONE, rounded to
 * nearest, halves up. The buffers must not overlap. All kernels give the same bytes. */
void blend_bytes(enum image_kernels kernels, uint8_t *target, const uint8_t *source, size_t count,
                 uint32_t target_weight);

#endif
