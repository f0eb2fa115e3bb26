/*
 * webp — decodes WebP files to pixels, using libwebp. See pixels.h for the calling sequence.
 *
 * Lossy and lossless files become RGB, with libwebp's default chroma upsampling. Animations are
 * rejected. The container's EXIF chunk gives the orientation. Decoding is cropped to the region.
 */
#ifndef MILLRACE_IMAGE_FORMATS_WEBP_H
#define MILLRACE_IMAGE_FORMATS_WEBP_H

#include "image/formats/pixels.h"

#include <stdbool.h>

/* A file after webp_begin. Borrows its bytes. */
struct webp {
    const uint8_t *data;
    size_t bytes;
    const char *path;
    uint32_t width, height;
};

int webp_begin(struct webp *webp, const void *data, size_t bytes, const char *path,
               struct pixels_info *ret_info, struct err *err);
int webp_decode_region(const struct webp *webp, const struct image_rect *region,
                       struct pixels_memory *memory, struct pixels *ret_pixels, struct err *err);

/* libwebp's version in libwebp's encoding: 0x010204 is 1.2.4. Pixels of lossy files may differ
 * between versions. */
uint32_t webp_version(void);

/* Header contents except the size, for display. */
struct webp_traits {
    bool lossless, has_alpha, has_animation;
};
/* -EBADMSG. Like webp_begin, but accepts animations. */
int webp_probe(const void *data, size_t bytes, const char *path, struct pixels_info *ret_info,
               struct webp_traits *ret_traits, struct err *err);

#endif
