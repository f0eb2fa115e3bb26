/*
 * encode_image — keeps, tiles, reencodes or decodes an image file for a sample.
 *
 * Decoding every image (for tiling, only to coefficients) finds damage before training. Formats are
 * detected by content. options->jpeg applies to JPEGs with the extension "jpg"; misnamed JPEGs,
 * PNG, WebP and PPM are stored unchanged. With options->store raw, all images become PPM: upright,
 * scaled down to max_side, with the extension "ppm".
 */
#ifndef MILLRACE_CONVERT_DATASET_ENCODE_IMAGE_H
#define MILLRACE_CONVERT_DATASET_ENCODE_IMAGE_H

#include "base/str.h"
#include "convert/jpeg_counts.h"
#include "convert/options.h"
#include "shards/format/index.h"

enum { ENCODE_QUALITY_DEFAULT = 90 };

struct image_file {
    const char *data;
    size_t bytes;
    const char *path;
};

struct image_encoder; /* use from one thread only */
/* Borrows options. */
int image_encoder_open(const struct convert_options *options, struct image_encoder **ret_encoder,
                       struct err *err);
void image_encoder_close(struct image_encoder *encoder); /* NULL is fine */

/* Appends the stored form of a file to out, and updates extension ("jpeg" becomes "jpg").
 * Updates jpegs. -EBADMSG with path and offset, -ENOMEM. */
int image_encode(struct image_encoder *encoder, const struct image_file *file,
                 char extension[SHARD_EXTENSION_BYTES_MAX], struct str *out,
                 struct convert_jpeg_counts *jpegs, struct err *err);

#endif
