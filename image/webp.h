/*
 * webp — WebP files to pixels, by libwebp; webp.c alone knows it. See pixels.h for the calling
 * sequence.
 *
 * Lossy and lossless ones come as RGB, chroma upsampled as libwebp does by default. Animations are
 * refused. The orientation is that of the container's EXIF chunk. What is wanted is cut out while
 * decoding, which ends at the part's last row.
 */
#ifndef MILLRACE_IMAGE_WEBP_H
#define MILLRACE_IMAGE_WEBP_H

#include "image/pixels.h"

#include <stdbool.h>

/* A file that was begun; by value. Borrows its bytes. */
struct webp {
    const uint8_t *data;
    size_t bytes;
    const char *path;
    uint32_t width, height;
};

int webp_begin(struct webp *webp, const void *data, size_t bytes, const char *path,
               struct pixels_info *ret_info, struct err *err);
int webp_part(const struct webp *webp, const struct image_rect *part, struct pixels_memory *memory,
              struct pixels *ret_pixels, struct err *err);

/* libwebp's version as it has it: 0x010204 is 1.2.4. Another one may give other pixels of lossy
 * files. */
uint32_t webp_library_version(void);

/* What the headers say beside the size, for people. */
struct webp_traits {
    bool lossless, has_alpha, has_animation;
};
/* -EBADMSG as webp_begin's, but animations are told of. */
int webp_probe(const void *data, size_t bytes, const char *path, struct pixels_info *ret_info,
               struct webp_traits *ret_traits, struct err *err);

#endif
