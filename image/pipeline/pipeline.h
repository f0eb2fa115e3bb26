/*
 * pipeline — turns one image file (JPEG, PNG, WebP or PPM, detected by content) into one target
 * image: probe, choose the crop, decode the part that it needs, resample each plane from its own
 * resolution straight to the target, convert to RGB in the caller's buffer.
 *
 * The pixels are a pure function of (the file's bytes, options, seed, dataset, epoch, sample) and
 * of IMAGE_PIPELINE_VERSION, on any CPU. All arithmetic is in integers, except the coordinates of
 * some augmentations (augment_warp.c).
 */
#ifndef MILLRACE_IMAGE_PIPELINE_PIPELINE_H
#define MILLRACE_IMAGE_PIPELINE_PIPELINE_H

#include "base/err.h"
#include "image/augment.h"
#include "image/crop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IMAGE_PIPELINE_VERSION = 1 }; /* part of numerics_id: increment whenever a pixel changes */

/* Immutable. */
struct image_options {
    uint32_t width, height; /* of the target in pixels, 1..RESAMPLE_TARGET_MAX */
    struct crop_options crop;
    struct augment_options augment; /* applied to the target, after crop and flip */
    uint64_t pixels_max; /* of an image as stored; larger ones are refused; 0: PIXELS_MAX */
};

/* The key of the random choices. */
struct image_key {
    uint64_t seed;
    uint32_t dataset, epoch;
    uint64_t sample;
};

/* The libraries whose version affects pixels: "libjpeg-turbo 2.1.5, libwebp 1.2.4". Part of
 * numerics_id. */
enum { IMAGE_LIBRARIES_BYTES = 64 };
void image_libraries(char text[IMAGE_LIBRARIES_BYTES]);

struct image_pipeline; /* owner thread; reuses a decoder and scratch memory */
int image_pipeline_open(const struct image_options *options, struct image_pipeline **ret_pipeline,
                        struct err *err);
void image_pipeline_close(struct image_pipeline *pipeline); /* NULL is fine */

/* Writes height rows of width RGB pixels at rgb, stride_bytes apart. path is for messages.
 * -EBADMSG: the file is refused (see image/jpeg/jpeg.h, image/formats/pixels.h); rgb is then
 * unspecified. */
int image_pipeline_run(struct image_pipeline *pipeline, const void *data, size_t bytes,
                       const char *path, struct image_key key, uint8_t *rgb, size_t stride_bytes,
                       struct err *err);

/* Rows of an uncompressed picture: RGB, upright. */
struct image_rows {
    uint32_t width, height; /* of the whole picture */
    uint32_t first, count;  /* the range in use */
};
/* Sets first and count: the rows needed for the key. False if no picture of that size is accepted.
 * Any thread. */
bool image_rows_needed(const struct image_options *options, struct image_key key,
                       struct image_rows *rows);
/* As image_pipeline_run of the whole picture, given only the needed rows, consecutive at data.
 * -ENOMEM. */
int image_pipeline_run_rows(struct image_pipeline *pipeline, const struct image_rows *rows,
                            const void *data, struct image_key key, uint8_t *rgb,
                            size_t stride_bytes, struct err *err);

/* Harmless warnings (see jpeg_decoder_warnings) of the last image; only JPEGs have them. */
uint32_t image_pipeline_warnings(const struct image_pipeline *pipeline);

/* Bounds for scaling down. */
struct image_bounds {
    uint32_t side_max; /* of the longer side in pixels; 0: no limit */
    /* If the image is scaled, round its width with jpeg_tile_width; the height follows. */
    bool tiles;
};

/* The whole image, upright, scaled down if larger than its bounds, as RGB. The memory belongs to
 * the pipeline until its next call. For converters. */
int image_pipeline_whole(struct image_pipeline *pipeline, const void *data, size_t bytes,
                         const char *path, struct image_bounds bounds, const uint8_t **ret_rgb,
                         uint32_t *ret_width, uint32_t *ret_height, struct err *err);

#endif
