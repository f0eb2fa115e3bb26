/*
 * render — turns decoded samples into a target image: resamples each plane from its own resolution
 * straight to the target's, then converts all planes to RGB in the caller's buffer.
 *
 * A framing says which rectangle of the stored image becomes a target of which size, and how it is
 * oriented. Each plane is resampled in its stored frame, rows first. A mirrored axis is a plan that
 * counts its outputs backwards. If the orientation swaps the sides, the second pass writes straight
 * instead of transposed. The result equals, bit for bit, the upright result after reorientation.
 * For interleaved colors, the first pass treats a row's samples as that many more columns, and the
 * second pass takes every third line of its result.
 *
 * Planning comes first and determines which part of the image to decode:
 *
 *     framing_of(...);
 *     render_plan_planes(renderer, &framing, &planes, &part, err);
 *     ... decode at least that part ...
 *     render_planes(renderer, &framing, &planes, rgb, stride_bytes, err);
 */
#ifndef MILLRACE_IMAGE_PIPELINE_RENDER_H
#define MILLRACE_IMAGE_PIPELINE_RENDER_H

#include "image/crop.h"
#include "image/formats/pixels.h"
#include "image/jpeg/jpeg.h"
#include "image/kernels/resample.h"

enum { RENDER_PLANES_MAX = 3 };

struct framing {
    struct image_rect stored;        /* rectangle of the stored image */
    bool swap_sides, flip_x, flip_y; /* flips of the stored axes, before the sides are swapped */
    uint32_t width, height;          /* of the target, as seen */
};

/* crop is in the image as seen; stored_width and stored_height are before the orientation is
 * applied. */
struct framing framing_of(uint32_t orientation, uint32_t stored_width, uint32_t stored_height,
                          struct crop crop, uint32_t width, uint32_t height);

/* Plans and scratch memory, which grows and is kept. Initialize with zeros, except kernels. Owner
 * thread. */
struct renderer {
    enum image_kernels kernels;
    /* Plans for the stored rows and columns of each plane. */
    struct resample_plan down[RENDER_PLANES_MAX], across[RENDER_PLANES_MAX];
    struct pixels_memory transposed_plane; /* a plane between the passes: its columns as rows */
    struct pixels_memory target;           /* planes at the target's size, consecutive */
};
void renderer_deinit(struct renderer *renderer);

/* Uses only the planes' shapes. -ENOMEM. */
int render_plan_planes(struct renderer *renderer, const struct framing *framing,
                       const struct jpeg_planes *planes, struct image_rect *ret_part,
                       struct err *err);
/* rgb: framing->height rows of framing->width pixels. */
int render_planes(struct renderer *renderer, const struct framing *framing,
                  const struct jpeg_planes *planes, uint8_t *rgb, size_t stride_bytes,
                  struct err *err);

int render_plan_pixels(struct renderer *renderer, const struct framing *framing,
                       const struct pixels_info *info, struct image_rect *ret_part,
                       struct err *err);
int render_pixels(struct renderer *renderer, const struct framing *framing,
                  const struct pixels *pixels, uint8_t *rgb, size_t stride_bytes, struct err *err);

#endif
