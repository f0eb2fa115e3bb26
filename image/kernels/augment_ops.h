/*
 * augment_ops — the operations of augment.h.
 */
#ifndef MILLRACE_IMAGE_KERNELS_AUGMENT_OPS_H
#define MILLRACE_IMAGE_KERNELS_AUGMENT_OPS_H

#include "image/augment.h"

/* Rows of RGB. */
struct augment_image {
    uint8_t *rgb;
    uint32_t width, height;
    size_t stride_bytes;
    uint8_t *scratch; /* 3 * width * height bytes */
};

/* Leaves no gaps between rows. */
void augment_copy_to_scratch(const struct augment_image *image);

/* augment_color.c */
void augment_brightness(const struct augment_image *image, int32_t factor);
void augment_saturation(const struct augment_image *image, int32_t factor);
void augment_contrast(const struct augment_image *image, int32_t factor);
void augment_sharpness(const struct augment_image *image, int32_t factor);
void augment_posterize(const struct augment_image *image, int32_t bits);
void augment_solarize(const struct augment_image *image, int32_t threshold);
void augment_auto_contrast(const struct augment_image *image);
void augment_equalize(const struct augment_image *image);
void augment_hue(const struct augment_image *image, int32_t turn);

/* augment_warp.c */
void augment_shear_x(const struct augment_image *image, int32_t hundredths);
void augment_shear_y(const struct augment_image *image, int32_t hundredths);
void augment_translate(const struct augment_image *image, int32_t right, int32_t down);
void augment_rotate(const struct augment_image *image, int32_t degrees);

#endif
