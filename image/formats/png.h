/*
 * png — decodes PNG files to pixels, using libspng. See pixels.h for the calling sequence. Also
 * encodes pixels and palette images.
 *
 * Gray of up to 8 bits becomes one channel, everything else RGB; 16-bit samples keep the upper 8
 * bits. An eXIf chunk is used only if it precedes the image data. Decoding stops after the
 * region's last row, except that interlaced images are decoded completely.
 */
#ifndef MILLRACE_IMAGE_FORMATS_PNG_H
#define MILLRACE_IMAGE_FORMATS_PNG_H

#include "base/str.h"
#include "image/formats/pixels.h"
#include "image/mask.h"

#include <stdbool.h>

/* One thread at a time. Zero-initialize. */
struct png_decoder {
    struct spng_ctx *codec; /* from png_begin to the end of png_decode_region */
    const char *path;
    uint32_t width, height, channels;
    uint8_t color_type, depth_bits;
    bool interlaced;
};

void png_decoder_deinit(struct png_decoder *decoder);

int png_begin(struct png_decoder *decoder, const void *data, size_t bytes, const char *path,
              struct pixels_info *ret_info, struct err *err);
int png_decode_region(struct png_decoder *decoder, const struct image_rect *region,
                      struct pixels_memory *memory, struct pixels *ret_pixels, struct err *err);

/* Like png_decode_region, for a mask of class numbers: takes gray levels or palette indexes of 1 to
 * 16 bits as stored, without scaling them or looking up colors. ret_mask borrows from memory.
 * -EBADMSG also if the image has colors or alpha. */
int png_decode_mask(struct png_decoder *decoder, const struct image_rect *region,
                    struct pixels_memory *memory, struct image_mask *ret_mask, struct err *err);

/* Header contents except the size, for display. */
struct png_traits {
    const char *color; /* "RGB", "RGB and alpha", "palette", "gray", "gray and alpha" */
    uint32_t depth_bits;
    bool interlaced;
};
int png_probe(const void *data, size_t bytes,
              struct png_traits *ret_traits); /* -EBADMSG, -ENOMEM */

/* Appends a file with these pixels to out. channels: 1 (gray) or 3 (RGB); rows are consecutive. The
 * bytes depend only on the pixels and on the versions of libspng and zlib. -EBADMSG: the size
 * exceeds the limits of pixels.h; -ENOMEM. path: for messages. */
int png_encode(const uint8_t *pixels, uint32_t width, uint32_t height, uint32_t channels,
               const char *path, struct str *out, struct err *err);

/* Encodes rows of palette indexes below colors_count (1..256), one byte each, as a PNG; appends it
 * to out. rgba: of each index. The same input and zlib give the same bytes. */
int png_encode_palette(const uint8_t *indexes, uint32_t width, uint32_t height,
                       const uint8_t (*rgba)[4], uint32_t colors_count, struct str *out,
                       struct err *err);

#endif
