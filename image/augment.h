/*
 * augment — random changes to a target image: torchvision's RandAugment and ColorJitter, on
 * 8-bit pixels.
 *
 * The changes to a sample depend only on (seed, dataset, epoch, sample), which key the Philox
 * words that choose operations and factors (docs/reference/images.md). Results are the same on
 * any CPU: color operations use integers, and geometric ones round each sum and product of
 * doubles separately (augment_warp.c). Color operations match Pillow's to within one level;
 * geometric ones (nearest pixel, black outside the image) match exactly.
 */
#ifndef MILLRACE_IMAGE_AUGMENT_H
#define MILLRACE_IMAGE_AUGMENT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RANDAUGMENT_OPS_MAX = 16, RANDAUGMENT_MAGNITUDE_MAX = 30 };

/* Immutable. Zero: no changes. */
struct augment_options {
    uint32_t randaugment_ops;                /* operations per image; 0: none */
    uint32_t randaugment_magnitude;          /* strength, 0..RANDAUGMENT_MAGNITUDE_MAX */
    double brightness, contrast, saturation; /* jitter: for x in 0..1, a factor in [1 - x, 1 + x] */
    double hue; /* jitter: for x in 0..0.5, a rotation by [-x, x] full turns */
};
/* -EINVAL with detail if a limit above is exceeded. */
int augment_options_check(const struct augment_options *options, struct err *err);

/* For both, options may be unchecked: a wrong value counts as one that is set. */
static inline bool augment_has_jitter(const struct augment_options *options)
{
    return options->brightness != 0 || options->contrast != 0 || options->saturation != 0 ||
           options->hue != 0;
}

static inline bool augment_is_on(const struct augment_options *options)
{
    return options->randaugment_ops != 0 || augment_has_jitter(options);
}

/* RandAugment chooses among the first fourteen. */
enum augment_op {
    AUGMENT_IDENTITY,
    AUGMENT_SHEAR_X,     /* value: hundredths */
    AUGMENT_SHEAR_Y,     /* value: hundredths */
    AUGMENT_TRANSLATE_X, /* value: pixels to the right */
    AUGMENT_TRANSLATE_Y, /* value: pixels down */
    AUGMENT_ROTATE,      /* value: degrees counter-clockwise, -30..30 */
    AUGMENT_BRIGHTNESS,  /* value: factor in 65536ths; also for the next three */
    AUGMENT_COLOR,
    AUGMENT_CONTRAST,
    AUGMENT_SHARPNESS,
    AUGMENT_POSTERIZE, /* value: upper bits to keep, 1..8 */
    AUGMENT_SOLARIZE,  /* value: twice the lowest level to invert */
    AUGMENT_AUTO_CONTRAST,
    AUGMENT_EQUALIZE,
    AUGMENT_HUE, /* value: rotation in 65536ths of a sixth of a turn */
    AUGMENT_OPS_COUNT,
};

struct augment_step {
    enum augment_op op;
    int32_t value;
};

enum { AUGMENT_STEPS_MAX = RANDAUGMENT_OPS_MAX + 4 };

/* Chooses the steps, RandAugment's first, for a target of width x height pixels. Returns their
 * number. */
uint32_t augment_choose(const struct augment_options *options, uint32_t width, uint32_t height,
                        uint64_t seed, uint32_t dataset, uint32_t epoch, uint64_t sample,
                        struct augment_step steps[AUGMENT_STEPS_MAX]);

/* Applies a step in place. scratch has 3 * width * height bytes. */
void augment_apply(struct augment_step step, uint8_t *rgb, uint32_t width, uint32_t height,
                   size_t stride_bytes, uint8_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
