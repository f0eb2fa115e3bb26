/*
 * normalize — writes a picture as models take it: its channels interleaved or as planes, gray, or
 * as normalized floats.
 *
 * The value of level x in channel c is
 *
 *     ((float)x / 255.0f - (float)mean[c]) / (float)std[c]
 *
 * in float32: each of the three operations is rounded to nearest, ties to even, and so is the
 * conversion of the result to F16 or BF16. torchvision's to_tensor and normalize compute the same,
 * so their bits are equal. There are 256 levels, so pictures are converted by tables, and the bits
 * do not depend on the processor.
 *
 * Gray is (19595 R + 38470 G + 7471 B + 32768) >> 16: the luma of JPEG (ITU-R BT.601), in the
 * integers of libjpeg and of Pillow's convert("L").
 *
 *     normalize_options_check(&options, err);
 *     normalize_init(&normalize, &options);
 *     normalize_apply(&normalize, rgb, pixels_count, values);
 */
#ifndef MILLRACE_IMAGE_NORMALIZE_H
#define MILLRACE_IMAGE_NORMALIZE_H

#include "base/dtype.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum image_layout {
    IMAGE_LAYOUT_HWC, /* [height, width, channels] */
    IMAGE_LAYOUT_CHW, /* [channels, height, width], as in PyTorch */
};

/* Immutable. */
struct normalize_options {
    enum image_layout layout;
    enum dtype dtype;  /* DTYPE_U8: the levels; DTYPE_F32, DTYPE_F16 or DTYPE_BF16 */
    uint32_t channels; /* 3: RGB; 1: gray */
    /* By channel, in units of 0..1. Of DTYPE_U8, 0 and 1. */
    double mean[3], std[3];
};
/* Returns the options of unchanged pictures: bytes of interleaved RGB, mean 0 and std 1. */
struct normalize_options normalize_options_default(void);
/* -EINVAL with detail: another type or number of channels, a mean or std of bytes, a std that is
 * not positive, or values that the type cannot hold. */
int normalize_options_check(const struct normalize_options *options, struct err *err);

/* False: pictures stay as they are. */
static inline bool normalize_is_on(const struct normalize_options *options)
{
    return options->layout != IMAGE_LAYOUT_HWC || options->dtype != DTYPE_U8 ||
           options->channels != 3;
}

/* Immutable after normalize_init, so any thread may use it. */
struct normalize {
    struct normalize_options options;
    uint32_t values[3][256]; /* by channel and level: the bits of the value */
};

/* Requires checked options. */
void normalize_init(struct normalize *normalize, const struct normalize_options *options);
/* Writes channels * pixels_count values, aligned to their size. rgb and values must not overlap. */
void normalize_apply(const struct normalize *normalize, const uint8_t *rgb, size_t pixels_count,
                     void *values);

#ifdef __cplusplus
}
#endif

#endif
