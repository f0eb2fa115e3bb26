/*
 * augment — random changes to a target image: torchvision's RandAugment and ColorJitter, on bytes.
 *
 * What happens to a sample is a pure function of (seed, dataset, epoch, sample): its Philox words
 * choose operations and factors (docs/reference/images.md says which). Colours are changed in
 * integers; where pixels move to, a few doubles say, each of whose sums and products is rounded by
 * itself (augment_warp.c): the same on any CPU. Operations are Pillow's, within one level of it;
 * those that move pixels take the nearest one, and black from outside, and are equal to Pillow's.
 */
#ifndef MILLRACE_IMAGE_AUGMENT_H
#define MILLRACE_IMAGE_AUGMENT_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RANDAUGMENT_OPS_MAX = 16, RANDAUGMENT_MAGNITUDE_MAX = 30 };

/* Immutable; zero: nothing is done. */
struct augment_options {
    uint32_t randaugment_ops;                /* operations an image; 0: none */
    uint32_t randaugment_magnitude;          /* 0..30: how strong they are */
    double brightness, contrast, saturation; /* jitter: x in 0..1, a factor of [1 - x, 1 + x] */
    double hue; /* jitter: x in 0..0.5, a turn by [-x, x] of the whole circle */
};
/* -EINVAL with detail unless within the limits above. */
int augment_options_check(const struct augment_options *options, struct err *err);

/* RandAugment draws from the first fourteen. */
enum augment_op {
    AUGMENT_IDENTITY,
    AUGMENT_SHEAR_X,     /* value: hundredths */
    AUGMENT_SHEAR_Y,     /* the same */
    AUGMENT_TRANSLATE_X, /* value: pixels to the right */
    AUGMENT_TRANSLATE_Y, /* value: pixels down */
    AUGMENT_ROTATE,      /* value: degrees counter-clockwise, -30..30 */
    AUGMENT_BRIGHTNESS,  /* value: factor, in 65536ths; also of the next three */
    AUGMENT_COLOR,
    AUGMENT_CONTRAST,
    AUGMENT_SHARPNESS,
    AUGMENT_POSTERIZE, /* value: upper bits that stay, 1..8 */
    AUGMENT_SOLARIZE,  /* value: twice the level from which on levels are inverted */
    AUGMENT_AUTO_CONTRAST,
    AUGMENT_EQUALIZE,
    AUGMENT_HUE, /* value: turn, in 65536ths of a sixth of the circle */
    AUGMENT_OPS_COUNT,
};

struct augment_step {
    enum augment_op op;
    int32_t value;
};

enum { AUGMENT_STEPS_MAX = RANDAUGMENT_OPS_MAX + 4 };

/* The steps for a sample's target of width x height pixels, RandAugment's before the jitter's;
 * returns how many. */
uint32_t augment_choose(const struct augment_options *options, uint32_t width, uint32_t height,
                        uint64_t seed, uint32_t dataset, uint32_t epoch, uint64_t sample,
                        struct augment_step steps[AUGMENT_STEPS_MAX]);

/* One step, in place; scratch has 3 * width * height bytes. */
void augment_apply(struct augment_step step, uint8_t *rgb, uint32_t width, uint32_t height,
                   size_t stride_bytes, uint8_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
