/*
 * geometry — how a sample's image was cropped, resized, flipped and augmented, to do the same to
 * what belongs to the image: masks, boxes and points.
 *
 *     image_pipeline_run(pipeline, ...);
 *     geometry = image_pipeline_geometry(pipeline);
 *     remaining = geometry_map_box(geometry, &box);
 *
 * Coordinates are doubles, in pixels from the top left corner of the upright image: pixel (i, j)
 * covers i to i + 1 and j to j + 1. Each operation is rounded separately, so that results are the
 * same on any CPU (-ffp-contract=off).
 */
#ifndef MILLRACE_IMAGE_GEOMETRY_H
#define MILLRACE_IMAGE_GEOMETRY_H

#include "image/augment.h"
#include "image/crop.h"
#include "image/mask.h"

struct image_geometry {
    uint32_t source_width, source_height; /* of the upright image */
    struct crop crop;
    uint32_t width, height; /* of the target */
    struct augment_step steps[AUGMENT_STEPS_MAX];
    uint32_t steps_count;
};

/* (x0, y0) is its top left corner, (x1, y1) the bottom right one. */
struct image_box {
    double x0, y0, x1, y1;
};

/* Maps a box to the target. It is clipped to the crop. Each shear, translation or rotation replaces
 * it by the box around its moved corners, clipped to the target. Returns the fraction of its area
 * that remains, the product over all clips; 0: nothing, and the box is unspecified. */
double geometry_map_box(const struct image_geometry *geometry, struct image_box *box);

/* Maps a point to the target. False: it is outside the crop, or a step has moved it outside; it is
 * then unspecified. Edges are inside. */
bool geometry_map_point(const struct image_geometry *geometry, double *x, double *y);

/* Sets the rows of the source that geometry_sample_mask needs. */
void geometry_find_rows(const struct image_geometry *geometry, uint32_t *ret_first,
                        uint32_t *ret_count);
/* Stores the class numbers of the target's pixels, row by row: unsigned integers of target_bytes
 * (1, 2, 4 or 8; at least mask->value_bytes). Each is that of the nearest pixel of the crop, number
 * floor((i + 1/2) crop / target), as torch's "nearest-exact", then that of the pixel from which the
 * steps have moved the image; 0 where the image is black because it came from outside. */
void geometry_sample_mask(const struct image_geometry *geometry, const struct image_mask *mask,
                          void *target, size_t target_bytes);

#endif
