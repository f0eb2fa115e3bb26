/*
 * jpeg — JPEG files to planes and back, by libjpeg-turbo; the files that include jpeg_reader.h or
 * jpeg_writer.h alone know it.
 *
 * A decoder is opened once a thread and reused: the memory of its planes grows to the largest image
 * and stays, so the steady state asks the system for nothing of ours. libjpeg's own object is made
 * anew for each image: a reused one would lend its tables to a file that lacks them, and the pixels
 * would depend on what was decoded before. Planes come as they are stored: the decoder never
 * scales, never upsamples and never smooths (JDCT_ISLOW, raw data). CMYK and YCCK files are decoded
 * fully and converted to three RGB planes; all are taken as inverted, as Adobe writes them and as
 * browsers and Pillow read them. ICC profiles are ignored.
 *
 * libjpeg goes on with gray where data is lost; we do not: its warnings of lost or contradictory
 * data (premature end, bad Huffman code, a marker instead of RST, progression) are errors, the
 * others (extraneous bytes) are counted.
 *
 *     jpeg_decoder_open(&decoder, err);
 *     // the whole image; planes borrow from the decoder
 *     jpeg_decode(decoder, data, bytes, path, &planes, err);
 * or, where the headers decide what is wanted:
 *     jpeg_decode_begin(decoder, data, bytes, path, &info, err);      // headers only
 *     jpeg_decode_part(decoder, &part, &planes, err);
 *
 * A part is cut out of the compressed bytes (jpeg_cut.h) where restart markers divide the rows of
 * MCUs, else decoding goes from the start to the part's last row: the same samples at different
 * costs. Of a part, data that is lost elsewhere goes unnoticed.
 */
#ifndef MILLRACE_IMAGE_JPEG_H
#define MILLRACE_IMAGE_JPEG_H

#include "base/err.h"
#include "base/str.h"
#include "image/rect.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JPEG_COMPONENTS_MAX = 4,
    JPEG_SCANS_MAX = 500, /* encoders write about ten; each costs a pass over all coefficients */
};

enum jpeg_color { JPEG_GRAY, JPEG_YCBCR, JPEG_RGB, JPEG_CMYK, JPEG_YCCK };

/* What the headers say. Sizes in pixels as stored, before the EXIF orientation is applied. */
struct jpeg_info {
    uint32_t width, height;
    uint32_t components;
    enum jpeg_color color;
    uint32_t h_samp[JPEG_COMPONENTS_MAX], v_samp[JPEG_COMPONENTS_MAX]; /* sampling factors, 1..4 */
    uint32_t orientation;      /* EXIF, 1..8; 1 where absent or invalid */
    uint32_t restart_interval; /* in MCUs, 0: none */
    bool progressive, arithmetic;
};

/* One component as stored: width x height samples, of which the image has one for every
 * (scale_x.num/den) x (scale_y.num/den) pixels: x_num/x_den = h_samp / the largest h_samp. */
struct jpeg_plane {
    const uint8_t *data; /* its first sample is in column left, row top of the plane */
    size_t stride_bytes;
    uint32_t left, top;
    uint32_t width, height; /* ceil(image * num / den); only the part asked for is there */
    uint32_t x_num, x_den, y_num, y_den; /* samples a pixel, in lowest terms */
};

struct jpeg_planes {
    uint32_t width, height; /* of the image in pixels */
    enum jpeg_color color;  /* JPEG_GRAY, JPEG_YCBCR or JPEG_RGB: CMYK and YCCK were converted */
    uint32_t count;         /* 1 or 3 */
    struct jpeg_plane plane[3];
};

/* The shape of the planes that a decode of such a file gives; their data is NULL. */
struct jpeg_planes jpeg_planes_of(const struct jpeg_info *info);

/* path (may be NULL) serves messages. -EBADMSG with the offset where it is no JPEG that can be
 * decoded (or not one of ours: lossless, 12 bits, two components, too large), else 0. */
int jpeg_probe(const void *data, size_t bytes, const char *path, struct jpeg_info *ret_info,
               struct err *err);

/* The library that decodes, with its version: another one may give other pixels. Static text. */
const char *jpeg_library(void);
/* Whether it uses SIMD: 1; 0 where it was built without, or JSIMD_FORCENONE=1 turns it off; -1
 * where it can't be told. */
int jpeg_simd(void);

struct jpeg_decoder; /* owner thread */
int jpeg_decoder_open(struct jpeg_decoder **ret_decoder, struct err *err);
void jpeg_decoder_close(struct jpeg_decoder *decoder); /* NULL is fine */
/* libjpeg may take the memory that an image of so many pixels needs, which for a progressive one is
 * that of all its coefficients; -EBADMSG where another one needs more. PIXELS_MAX at first. */
void jpeg_decoder_limit(struct jpeg_decoder *decoder, uint64_t pixels_max);

/* Decodes the whole image, and checks everything up to its end. planes borrow from the decoder
 * until its next call. -EBADMSG, -ENOMEM. */
int jpeg_decode(struct jpeg_decoder *decoder, const void *data, size_t bytes, const char *path,
                struct jpeg_planes *ret_planes, struct err *err);

/* The same in two steps. begin reads the headers and borrows data and path until part returns, or
 * until the next begin. The planes hold a part of the image, which is not empty: all samples of
 * which a pixel of it has some share. NULL: the whole, as above. */
int jpeg_decode_begin(struct jpeg_decoder *decoder, const void *data, size_t bytes,
                      const char *path, struct jpeg_info *ret_info, struct err *err);
int jpeg_decode_part(struct jpeg_decoder *decoder, const struct image_rect *part,
                     struct jpeg_planes *ret_planes, struct err *err);

/* Harmless warnings (extraneous bytes and the like) of the last decode. */
uint32_t jpeg_decoder_warnings(const struct jpeg_decoder *decoder);

/* Encodes RGB, 3 bytes a pixel, rows of stride_bytes, as a baseline 4:2:0 JPEG with optimised
 * Huffman tables; appends to out. quality 1..100; restart_interval in MCUs of 16 x 16 pixels, 0:
 * none. The same input gives the same bytes. */
int jpeg_encode(const uint8_t *rgb, uint32_t width, uint32_t height, size_t stride_bytes,
                int quality, uint32_t restart_interval, struct str *out, struct err *err);

#endif
