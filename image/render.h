/*
 * render — decoded samples to a target image: each plane is resampled from its own resolution
 * straight to the target's, then all are converted to RGB in the caller's buffer.
 *
 * A framing says which rectangle of the stored image becomes a target of which size, and how it is
 * turned. Each plane is resampled in its stored frame, rows first; a mirrored axis is a plan that
 * counts its outputs backwards, and where the orientation swaps the sides the second pass writes
 * straight instead of transposed. So the result is, bit for bit, what turning the upright result
 * would give. Where colours lie side by side, the first pass takes a row's samples as so many more
 * columns, and the second one takes every third line of its result.
 *
 * Planning comes first and tells which part of the image has to be decoded:
 *
 *     framing_of(...);
 *     render_plan_planes(renderer, &framing, &planes, &part, err);
 *     ... decode at least that part ...
 *     render_planes(renderer, &framing, &planes, rgb, stride_bytes, err);
 */
#ifndef MILLRACE_IMAGE_RENDER_H
#define MILLRACE_IMAGE_RENDER_H

#include "image/crop.h"
#include "image/jpeg.h"
#include "image/pixels.h"
#include "image/resample.h"

enum { RENDER_PLANES_MAX = 3 };

struct framing {
    struct image_rect stored;        /* of the stored image */
    bool swap_sides, flip_x, flip_y; /* flips of the stored axes, before the sides are swapped */
    uint32_t width, height;          /* of the target, as seen */
};

/* crop is a part of the image as seen; stored_width and stored_height are before the orientation is
 * applied. */
struct framing framing_of(uint32_t orientation, uint32_t stored_width, uint32_t stored_height,
                          struct crop crop, uint32_t width, uint32_t height);

/* Plans and scratch memory, which grows and is kept. Zero, but for the kernels, is a new one. Owner
 * thread. */
struct renderer {
    enum image_kernels kernels;
    /* The stored rows, the stored columns of each plane. */
    struct resample_plan down[RENDER_PLANES_MAX], across[RENDER_PLANES_MAX];
    struct pixels_memory turned; /* a plane between its passes: its columns as rows */
    struct pixels_memory target; /* planes at the target's size, one after the other */
};
void renderer_deinit(struct renderer *renderer);

/* Of planes only the shapes are looked at. -ENOMEM. */
int render_plan_planes(struct renderer *renderer, const struct framing *framing,
                       const struct jpeg_planes *planes, struct image_rect *ret_part,
                       struct err *err);
/* rgb: framing's height rows of its width pixels. */
int render_planes(struct renderer *renderer, const struct framing *framing,
                  const struct jpeg_planes *planes, uint8_t *rgb, size_t stride_bytes,
                  struct err *err);

int render_plan_pixels(struct renderer *renderer, const struct framing *framing,
                       const struct pixels_info *info, struct image_rect *ret_part,
                       struct err *err);
int render_pixels(struct renderer *renderer, const struct framing *framing,
                  const struct pixels *pixels, uint8_t *rgb, size_t stride_bytes, struct err *err);

#endif
