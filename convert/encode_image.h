/*
 * encode_image — an image file as a sample's field: kept, tiled, encoded again, or decoded for
 * good.
 *
 * Every one is decoded whole (tiling reads all of a JPEG's coefficients), so that a broken one is
 * found now and not in the middle of a training run. What a file is, its content tells. JPEGs of
 * extension "jpg" are stored as options->jpeg says, those of another and PNG, WebP and PPM files
 * byte for byte. With options->store raw all of them become PPM: upright, scaled down to max_side,
 * under the extension "ppm".
 */
#ifndef MILLRACE_CONVERT_ENCODE_IMAGE_H
#define MILLRACE_CONVERT_ENCODE_IMAGE_H

#include "base/str.h"
#include "convert/jpeg_counts.h"
#include "convert/options.h"
#include "shards/index.h"

enum { ENCODE_QUALITY_DEFAULT = 90 };

struct image_encoder; /* owner thread: decoders and scratch memory */
/* Borrows options. */
int image_encoder_open(const struct convert_options *options, struct image_encoder **ret_encoder,
                       struct err *err);
void image_encoder_close(struct image_encoder *encoder); /* NULL is fine */

/* Appends to out what is stored of a file with this extension, and writes the extension that it is
 * stored under (it may be the given one's memory; "jpeg" is given as "jpg"). jpegs counts. -EBADMSG
 * with path and offset, -ENOMEM. */
int image_encode(struct image_encoder *encoder, const struct str *file, const char *path,
                 char extension[SHARD_EXTENSION_BYTES_MAX], struct str *out,
                 struct convert_jpegs *jpegs, struct err *err);

#endif
