/*
 * augment_ops — the operations of augment.h.
 */
#ifndef MILLRACE_IMAGE_KERNELS_AUGMENT_OPS_H
#define MILLRACE_IMAGE_KERNELS_AUGMENT_OPS_H

#include "image/augment.h"

#include <stdbool.h>

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

/* Where the points of a changed picture come from: (x, y) from (a x + b y + c, d x + e y + f), in
 * pixels from the top left corner. The center of the first pixel is (1/2, 1/2). */
struct affine {
    double a, b, c, d, e, f;
};
/* Finds out where a step moves a picture's points. False: it moves none. */
bool augment_find_affine(struct augment_step step, uint32_t width, uint32_t height,
                         struct affine *ret_affine);

/* The same for pixels, in WARP_FRACTION_BITS fractional bits. */
struct warp {
    int64_t a, b, c, d, e, f;
};
enum { WARP_FRACTION_BITS = 16 };
struct warp warp_from_affine(const struct affine *affine);
/* Pixels that come from outside the picture become black. */
void augment_warp(const struct augment_image *image, const struct warp *warp);

#endif
