/*
 * pipeline — turns an image file (JPEG, PNG, WebP or PPM, detected by content) into a target
 * image: reads the headers, chooses the crop, decodes its part, resamples each
 * plane straight to the target, and converts to RGB in the caller's buffer.
 *
 * The pixels depend only on the file's bytes, options, seed, dataset, epoch, sample and
 * IMAGE_PIPELINE_VERSION, on any CPU. All arithmetic is in integers, except the coordinates of
 * some augmentations (augment_warp.c).
 */
#ifndef MILLRACE_IMAGE_PIPELINE_PIPELINE_H
#define MILLRACE_IMAGE_PIPELINE_PIPELINE_H

#include "base/err.h"
#include "image/augment.h"
#include "image/crop.h"
#include "image/pipeline/geometry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IMAGE_PIPELINE_VERSION = 1 }; /* part of numerics_id; increment if any pixel changes */

/* Immutable. */
struct image_options {
    uint32_t width, height; /* target in pixels, 1..RESAMPLE_TARGET_MAX */
    struct crop_options crop;
    struct augment_options augment; /* applied after crop and flip */
    uint64_t pixels_max;            /* larger stored images are rejected; 0: PIXELS_MAX */
    bool is_read_next;              /* the caller reads the target at once: keep it in the cache */
    bool libjpeg_only;              /* jpeg_decoder_use_libjpeg; the pixels are the same */
};

/* Key of the random choices. */
struct image_key {
    uint64_t seed;
    uint32_t dataset, epoch;
    uint64_t sample;
};

/* Libraries whose version affects pixels: "libjpeg-turbo 2.1.5, libwebp 1.2.4". Part of
 * numerics_id. */
enum { IMAGE_LIBRARIES_BYTES = 64 };
void image_library_versions(char text[IMAGE_LIBRARIES_BYTES]);

struct image_pipeline; /* one thread at a time; reuses memory */
int image_pipeline_open(const struct image_options *options, struct image_pipeline **ret_pipeline,
                        struct err *err);
void image_pipeline_close(struct image_pipeline *pipeline); /* NULL is fine */

/* Writes the target's rows of RGB pixels at rgb, stride_bytes apart. path is for messages.
 * -EBADMSG: invalid file (image/jpeg/jpeg.h, image/formats/pixels.h); rgb is then unspecified. */
int image_pipeline_run(struct image_pipeline *pipeline, const void *data, size_t bytes,
                       const char *path, struct image_key key, uint8_t *rgb, size_t stride_bytes,
                       struct err *err);

/* Rows of an upright, uncompressed RGB picture. */
struct image_rows {
    uint32_t width, height; /* of the whole picture */
    uint32_t first, count;  /* rows in use */
};
/* Sets first and count to the rows that the key's crop needs. False: invalid picture size.
 * Thread-safe. */
bool image_find_rows(const struct image_options *options, struct image_key key,
                     struct image_rows *rows);
/* Like image_pipeline_run on the whole picture, but takes only the needed rows, consecutive at
 * data. -ENOMEM. */
int image_pipeline_run_rows(struct image_pipeline *pipeline, const struct image_rows *rows,
                            const void *data, struct image_key key, uint8_t *rgb,
                            size_t stride_bytes, struct err *err);

/* Like image_pipeline_run for a picture that belongs to the last image that was run, such as its
 * depth: crops, resizes, flips and moves it like the image, and leaves out the steps that change
 * colors. The image stays the last one. -EBADMSG: also, the upright picture has another size than
 * the upright image. */
int image_pipeline_run_follower(struct image_pipeline *pipeline, const void *data, size_t bytes,
                                const char *path, uint8_t *rgb, size_t stride_bytes,
                                struct err *err);

/* Returns how the last image that was run became the target. */
const struct image_geometry *image_pipeline_geometry(const struct image_pipeline *pipeline);

/* Returns the number of harmless warnings for the last image or follower (jpeg_decoder_warnings); 0
 * unless a JPEG. */
uint32_t image_pipeline_warnings(const struct image_pipeline *pipeline);

/* Limits of a downscaled image. */
struct image_bounds {
    uint32_t side_max; /* longer side in pixels; 0: no limit */
    /* Rounds the width of a scaled image with jpeg_tile_width; the height follows. */
    bool tile_aligned;
};

/* Returns the whole image as upright RGB, scaled down to its bounds, for converters. The
 * pipeline owns the pixels, which are valid until its next call. */
int image_pipeline_decode_whole(struct image_pipeline *pipeline, const void *data, size_t bytes,
                                const char *path, struct image_bounds bounds,
                                const uint8_t **ret_rgb, uint32_t *ret_width, uint32_t *ret_height,
                                struct err *err);

#endif
