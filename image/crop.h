/*
 * crop — chooses the rectangle of an image that becomes a sample.
 *
 * A crop depends only on seed, dataset, epoch and sample, which key the Philox words
 * (base/philox.h). Draw i of PHILOX_CROP is for attempt i: word 0 gives the area, 1 the ratio, 2
 * the row, 3 the column. The top bit of word 0 of draw 0 of PHILOX_FLIP gives the flip. The
 * arithmetic uses only +, *, / and square roots, which IEEE 754 rounds identically on any CPU.
 */
#ifndef MILLRACE_IMAGE_CROP_H
#define MILLRACE_IMAGE_CROP_H

#include "base/err.h"
#include "image/rect.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum crop_kind {
    CROP_NONE,   /* the whole image, stretched to the target */
    CROP_CENTER, /* largest central square, times center_fraction */
    CROP_RANDOM, /* torchvision's RandomResizedCrop */
};

/* Immutable. */
struct crop_options {
    enum crop_kind kind;
    double scale_min,
        scale_max; /* CROP_RANDOM: area of the crop relative to the image; default 0.08, 1 */
    double ratio_min, ratio_max; /* CROP_RANDOM: width over height; default 3/4, 4/3 */
    /* CROP_CENTER: 1 takes the whole square; 224/256 is common for evaluation. */
    double center_fraction;
    bool flip; /* mirror left-right with probability 1/2 */
};

struct crop_options crop_options_default(enum crop_kind kind);
/* -EINVAL unless 0 < scale_min <= scale_max <= 1, 0 < ratio_min <= ratio_max, 0 < center_fraction
 * <= 1. */
int crop_options_check(const struct crop_options *options, struct err *err);

struct crop {
    struct image_rect rect; /* within the upright image; never empty */
    bool flip;
};

/* width and height: pixels of the upright image, at least 1. The random crop tries ten areas
 * (uniform) and ratios (log-uniform), then falls back to the central crop with the nearest ratio
 * (torchvision.transforms.RandomResizedCrop.get_params). */
struct crop crop_choose(const struct crop_options *options, uint32_t width, uint32_t height,
                        uint64_t seed, uint32_t dataset, uint32_t epoch, uint64_t sample);

#ifdef __cplusplus
}
#endif

#endif
