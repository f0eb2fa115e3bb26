/*
 * jpeg — decodes JPEG files to planes and encodes RGB.
 *
 * libjpeg-turbo reads headers and decodes whole images. jpeg_fast (jpeg_fast/jpeg_fast.h) decodes
 * parts of sequential images to the same bytes; libjpeg-turbo decodes the parts that it rejects.
 *
 * Open one decoder per thread; its plane memory grows to the largest image, so the steady state
 * does not allocate. libjpeg's own state is reset for each image, because a file without tables
 * could otherwise use those of the previous one. Planes are returned as stored: the decoder
 * never scales, upsamples or smooths (JDCT_ISLOW, raw data). CMYK and YCCK files are decoded
 * completely and converted to three RGB planes; they are assumed to be inverted, as Adobe writes
 * them and browsers and Pillow read them. ICC profiles are ignored.
 *
 * libjpeg fills lost data with gray. Its warnings about lost or contradictory data (premature
 * end, bad Huffman code, a marker instead of RST, progression) are errors here; others
 * (extraneous bytes) are counted.
 *
 *     jpeg_decoder_open(&decoder, err);
 *     // the whole image; planes borrow from the decoder
 *     jpeg_decode(decoder, data, bytes, path, &planes, err);
 * or, to choose a part after reading the headers:
 *     jpeg_decode_begin(decoder, data, bytes, path, &info, err);      // headers only
 *     jpeg_decode_part(decoder, &part, &planes, err);
 *
 * If restart markers divide the rows of MCUs, only the part's segments are decoded (by libjpeg, cut
 * out of the compressed bytes: jpeg_cut.h). Otherwise decoding runs from the start through the
 * part's last row, with the same result. Decoding a part does not detect data lost elsewhere.
 */
#ifndef MILLRACE_IMAGE_JPEG_JPEG_H
#define MILLRACE_IMAGE_JPEG_JPEG_H

#include "base/err.h"
#include "base/str.h"
#include "image/kernels/kernels.h"
#include "image/rect.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JPEG_COMPONENTS_MAX = 4,
    JPEG_SCANS_MAX = 500, /* each costs a pass over all coefficients; encoders write about ten */
};

enum jpeg_color { JPEG_GRAY, JPEG_YCBCR, JPEG_RGB, JPEG_CMYK, JPEG_YCCK };

/* Header contents. Sizes are before the EXIF orientation is applied. */
struct jpeg_info {
    uint32_t width, height;
    uint32_t components;
    enum jpeg_color color;
    uint32_t h_samp[JPEG_COMPONENTS_MAX], v_samp[JPEG_COMPONENTS_MAX]; /* sampling factors, 1..4 */
    uint32_t orientation;      /* EXIF, 1..8; 1 if absent or invalid */
    uint32_t restart_interval; /* in MCUs, 0: none */
    bool progressive, arithmetic;
};

/* A stored component of width x height samples. */
struct jpeg_plane {
    const uint8_t *data; /* sample at column left, row top of the plane */
    size_t stride_bytes;
    uint32_t left, top;
    uint32_t width, height; /* ceil(image * num / den); data has only the requested part */
    /* samples per pixel in lowest terms: x_num/x_den = h_samp / the largest h_samp */
    uint32_t x_num, x_den, y_num, y_den;
};

struct jpeg_planes {
    uint32_t width, height; /* of the image in pixels */
    enum jpeg_color color;  /* JPEG_GRAY, JPEG_YCBCR or JPEG_RGB */
    uint32_t count;         /* 1 or 3 */
    struct jpeg_plane plane[3];
};

/* Returns the largest of count sampling factors, at least 1. */
uint32_t jpeg_max_factor(const uint32_t *factors, uint32_t count);
/* Returns the shapes of the planes of a file with these headers; their data is NULL. */
struct jpeg_planes jpeg_planes_of(const struct jpeg_info *info);

/* Reads the headers. path (may be NULL) is for messages. -EBADMSG with the offset: invalid file
 * or unsupported form (lossless, 12 bits, two components, too large). */
int jpeg_probe(const void *data, size_t bytes, const char *path, struct jpeg_info *ret_info,
               struct err *err);

/* Returns the decoding library and its version, which may affect pixels. Static string. */
const char *jpeg_library(void);
/* Returns 1 if the library uses SIMD; 0 if it was built without SIMD or JSIMD_FORCENONE=1
 * disables it; -1: unknown. */
int jpeg_simd(void);

struct jpeg_decoder; /* one thread at a time */
int jpeg_decoder_open(struct jpeg_decoder **ret_decoder, struct err *err);
void jpeg_decoder_close(struct jpeg_decoder *decoder); /* NULL is fine */
/* Limits libjpeg's memory to what an image of pixels_max pixels needs, including all
 * coefficients of a progressive one. Images that need more give -EBADMSG. Default:
 * PIXELS_MAX. */
void jpeg_decoder_set_pixels_max(struct jpeg_decoder *decoder, uint64_t pixels_max);

/* Decodes parts with libjpeg-turbo too, for comparison. */
void jpeg_decoder_use_libjpeg(struct jpeg_decoder *decoder);
/* Decodes parts with these kernels, which must be supported, instead of the best, for comparison.
 * Not after jpeg_decoder_use_libjpeg. */
void jpeg_decoder_use_kernels(struct jpeg_decoder *decoder, enum image_kernels kernels);
/* True if jpeg_fast decoded the last part. */
bool jpeg_decoder_used_fast(const struct jpeg_decoder *decoder);

/* Decodes the whole image and checks it to its end. ret_planes borrows from the decoder until
 * its next call. -EBADMSG, -ENOMEM. */
int jpeg_decode(struct jpeg_decoder *decoder, const void *data, size_t bytes, const char *path,
                struct jpeg_planes *ret_planes, struct err *err);

/* jpeg_decode in two steps. jpeg_decode_begin reads the headers and borrows data and path until
 * jpeg_decode_part returns or the next jpeg_decode_begin. part must not be empty; the planes
 * hold all samples that contribute to its pixels. NULL: the whole image. */
int jpeg_decode_begin(struct jpeg_decoder *decoder, const void *data, size_t bytes,
                      const char *path, struct jpeg_info *ret_info, struct err *err);
int jpeg_decode_part(struct jpeg_decoder *decoder, const struct image_rect *part,
                     struct jpeg_planes *ret_planes, struct err *err);

/* Returns the number of harmless warnings (such as extraneous bytes) of the last decode. */
uint32_t jpeg_decoder_warnings(const struct jpeg_decoder *decoder);

/* Encodes RGB, 3 bytes per pixel, rows of stride_bytes, as a baseline 4:2:0 JPEG with optimized
 * Huffman tables; appends it to out. quality: 1..100. restart_interval: in MCUs of 16 x 16
 * pixels; 0: none. The same input gives the same bytes. */
int jpeg_encode(const uint8_t *rgb, uint32_t width, uint32_t height, size_t stride_bytes,
                int quality, uint32_t restart_interval, struct str *out, struct err *err);

#endif
