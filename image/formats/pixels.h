/*
 * pixels — images with interleaved colors from PNG (png.h), WebP (webp.h) and PPM (ppm.h) files,
 * and detection of a file's kind.
 *
 *     pixels_decoder_open(&decoder, err);
 *     pixels_begin(decoder, kind, data, bytes, path, &info, err);     // headers only
 *     pixels_decode_region(decoder, &rect, &pixels, err);  // NULL: the whole image
 *
 * Open one decoder per thread; its pixel memory grows to the largest image. The libraries create
 * their own objects for each image. Transparency is dropped, as by Pillow's convert("RGB").
 * Color profiles and gamma are ignored. EXIF orientations are reported but not applied.
 */
#ifndef MILLRACE_IMAGE_FORMATS_PIXELS_H
#define MILLRACE_IMAGE_FORMATS_PIXELS_H

#include "base/err.h"
#include "image/rect.h"

#include <stddef.h>
#include <stdint.h>

enum {
    PIXELS_SIDE_MAX = 65500, /* libjpeg's limit */
    /* 16 Ki x 16 Ki: larger images are rejected before any allocation. */
    PIXELS_MAX = 1 << 28,
};

enum image_kind { IMAGE_UNKNOWN, IMAGE_JPEG, IMAGE_PNG, IMAGE_WEBP, IMAGE_PPM, IMAGE_KIND_COUNT };

enum { IMAGE_KIND_BYTES = 12 }; /* bytes needed to detect the kind */
/* Detects the kind from the first bytes. */
enum image_kind image_kind_of(const void *data, size_t bytes);
const char *image_kind_name(enum image_kind kind); /* "JPEG"; "image" if unknown */

/* Sizes before the orientation is applied. */
struct pixels_info {
    uint32_t width, height;
    uint32_t channels;    /* 3: R, G, B; 1: gray */
    uint32_t orientation; /* EXIF, 1..8; 1 if absent or invalid */
};

/* At least the requested region of an image, in rows of region.width * channels bytes. */
struct pixels {
    const uint8_t *data;
    size_t stride_bytes;
    struct image_rect region;
    uint32_t channels;
};

struct pixels_decoder; /* one thread at a time */
int pixels_decoder_open(struct pixels_decoder **ret_decoder, struct err *err);
void pixels_decoder_close(struct pixels_decoder *decoder); /* NULL is fine */

/* kind: PNG, WebP or PPM; the error for any other kind lists the supported formats. Borrows data
 * and path until pixels_decode_region returns, or until the next pixels_begin. path (may be NULL)
 * is for messages. -EBADMSG: invalid headers. */
int pixels_begin(struct pixels_decoder *decoder, enum image_kind kind, const void *data,
                 size_t bytes, const char *path, struct pixels_info *ret_info, struct err *err);
/* region: nonempty, inside the image. NULL: the whole image; also checks the file to its end.
 * ret_pixels borrows from the decoder, or from data, until the next call. Decoding a region gives
 * the same pixels as decoding the whole image. -EBADMSG, -ENOMEM. */
int pixels_decode_region(struct pixels_decoder *decoder, const struct image_rect *region,
                         struct pixels *ret_pixels, struct err *err);

/* Memory and checks shared by all decoders, including JPEG. */
struct pixels_memory {
    uint8_t *data;
    size_t bytes;
};
/* Discards the contents. */
int pixels_reserve(struct pixels_memory *memory, size_t bytes, struct err *err);
int pixels_check_size(const char *kind, const char *path, uint64_t width, uint64_t height,
                      struct err *err);
int pixels_error(const char *kind, const char *path, int64_t offset, const char *why,
                 struct err *err);

#endif
