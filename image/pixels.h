/*
 * pixels — images whose colours lie side by side: what PNG (png.h), WebP (webp.h) and PPM (ppm.h)
 * give; and which of them a file is.
 *
 * All three have the same calling sequence, and pixels_decoder chooses among them by a file's first
 * bytes:
 *
 *     pixels_decoder_open(&decoder, err);
 *     pixels_begin(decoder, kind, data, bytes, path, &info, err);     // headers only
 *     pixels_part(decoder, &rect, &pixels, err);  // a part of the image, or NULL: the whole
 *
 * A decoder is opened once a thread; the memory of its pixels grows to the largest image and stays.
 * The libraries make their own objects anew for each image. Transparency is dropped, as by Pillow's
 * convert("RGB"): what lies under it shows. Colour profiles and gamma are ignored. EXIF
 * orientations are told, and applied by who crops.
 */
#ifndef MILLRACE_IMAGE_PIXELS_H
#define MILLRACE_IMAGE_PIXELS_H

#include "base/err.h"
#include "image/rect.h"

#include <stddef.h>
#include <stdint.h>

enum {
    PIXELS_SIDE_MAX = 65500, /* libjpeg's own limit */
    PIXELS_MAX =
        1 << 28, /* 16 Ki x 16 Ki: beyond it an image is refused before anything is allocated */
};

enum image_kind { IMAGE_UNKNOWN, IMAGE_JPEG, IMAGE_PNG, IMAGE_WEBP, IMAGE_PPM, IMAGE_KIND_COUNT };

enum { IMAGE_KIND_BYTES = 12 }; /* that tell the kind */
/* By the first bytes; the extension is not asked. */
enum image_kind image_kind_of(const void *data, size_t bytes);
const char *image_kind_name(enum image_kind kind); /* "JPEG"; "image" where it is unknown */

/* Sizes as stored, before the orientation is applied. */
struct pixels_info {
    uint32_t width, height;
    uint32_t channels;    /* 3: R, G, B; 1: gray */
    uint32_t orientation; /* EXIF, 1..8; 1 where absent or invalid */
};

/* A part of an image, at least what was asked for: rows of part.width * channels bytes. */
struct pixels {
    const uint8_t *data;
    size_t stride_bytes;
    struct image_rect part;
    uint32_t channels;
};

struct pixels_decoder; /* owner thread */
int pixels_decoder_open(struct pixels_decoder **ret_decoder, struct err *err);
void pixels_decoder_close(struct pixels_decoder *decoder); /* NULL is fine */

/* kind: PNG, WebP or PPM; where it is unknown, the file is refused as none of them and no JPEG.
 * Borrows data and path until part returns, or until the next begin. -EBADMSG where the headers are
 * refused; path (may be NULL) serves messages. */
int pixels_begin(struct pixels_decoder *decoder, enum image_kind kind, const void *data,
                 size_t bytes, const char *path, struct pixels_info *ret_info, struct err *err);
/* part: not empty, inside the image; NULL: the whole, which also checks the file up to its end.
 * pixels borrow from the decoder, or from data, until the next call. The pixels of a part are those
 * of the whole. -EBADMSG, -ENOMEM. */
int pixels_part(struct pixels_decoder *decoder, const struct image_rect *part,
                struct pixels *ret_pixels, struct err *err);

/* For the decoders: their memory, and the checks that they share (JPEG's too). */
struct pixels_memory {
    uint8_t *data;
    size_t bytes;
};
int pixels_reserve(struct pixels_memory *memory, size_t bytes,
                   struct err *err); /* what it held is lost */
int pixels_check_size(const char *kind, const char *path, uint64_t width, uint64_t height,
                      struct err *err);
int pixels_refuse(const char *kind, const char *path, int64_t offset, const char *why,
                  struct err *err);

#endif
