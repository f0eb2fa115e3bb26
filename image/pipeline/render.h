/*
 * render — turns decoded samples into a target image: resamples each plane straight to the
 * target size, then converts the planes to RGB in the caller's buffer.
 *
 * A framing maps a rectangle of the stored image to an oriented target. Each plane is resampled
 * in its stored frame, rows first; the plan of a mirrored axis counts its outputs backwards. If
 * the orientation swaps the sides, the second pass does not transpose. The result is
 * bit-identical to a reorientation of the upright result. For interleaved colors, the first pass
 * treats each sample of a pixel as a column, and the second pass takes every third line of that
 * result. If the columns are enlarged and the sides are not swapped, neither pass transposes
 * (enlarge.h).
 *
 * Planning comes first and determines which region of the image to decode:
 *
 *     framing_for_crop(...);
 *     render_plan_planes(renderer, &framing, &planes, &region, err);
 *     ... decode at least that region ...
 *     render_planes(renderer, &framing, &planes, rgb, stride_bytes, err);
 */
#ifndef MILLRACE_IMAGE_PIPELINE_RENDER_H
#define MILLRACE_IMAGE_PIPELINE_RENDER_H

#include "image/crop.h"
#include "image/formats/pixels.h"
#include "image/jpeg/jpeg.h"
#include "image/kernels/enlarge.h"

enum { RENDER_PLANES_MAX = 3 };

struct framing {
    struct image_rect stored;        /* in the stored image */
    bool swap_sides, flip_x, flip_y; /* flips of the stored axes, before swapping sides */
    uint32_t width, height;          /* upright target */
};

/* crop is in the upright image; stored_width and stored_height are before orientation. */
struct framing framing_for_crop(uint32_t orientation, uint32_t stored_width, uint32_t stored_height,
                                struct crop crop, uint32_t width, uint32_t height);

/* Plans and reusable scratch memory. Zero-initialize all but the first two members. One thread at
 * a time. */
struct renderer {
    enum image_kernels kernels;
    bool is_read_next; /* the caller reads the result at once, so it stays in the cache */
    /* By plane. */
    struct resample_plan row_plans[RENDER_PLANES_MAX], column_plans[RENDER_PLANES_MAX];
    struct enlarge_plan enlarge_plans[RENDER_PLANES_MAX];
    struct pixels_memory between; /* the result of the first pass */
    struct pixels_memory target;  /* consecutive planes of the target's size */
    struct pixels_memory block;   /* some rows of RGB */
};
void renderer_deinit(struct renderer *renderer);

/* Uses only the planes' shapes. -ENOMEM. */
int render_plan_planes(struct renderer *renderer, const struct framing *framing,
                       const struct jpeg_planes *planes, struct image_rect *ret_region,
                       struct err *err);
/* rgb: framing->height rows of framing->width pixels. */
int render_planes(struct renderer *renderer, const struct framing *framing,
                  const struct jpeg_planes *planes, uint8_t *rgb, size_t stride_bytes,
                  struct err *err);

int render_plan_pixels(struct renderer *renderer, const struct framing *framing,
                       const struct pixels_info *info, struct image_rect *ret_region,
                       struct err *err);
int render_pixels(struct renderer *renderer, const struct framing *framing,
                  const struct pixels *pixels, uint8_t *rgb, size_t stride_bytes, struct err *err);

#endif
