/*
 * jpeg_tile — a JPEG with restart markers, so that parts of it can be cut out (jpeg_cut.h).
 *
 * The transcode is lossless: the same quantised coefficients, quantisation tables, sampling and
 * segments of metadata (JFIF, EXIF, ICC, Adobe, comments) in the same order; Huffman tables are
 * made anew, for this image. Progressive and arithmetic files become baseline. What stands behind
 * the end of the image (a second one, of some cameras) is left out. The same file gives the same
 * bytes.
 */
#ifndef MILLRACE_IMAGE_JPEG_TILE_H
#define MILLRACE_IMAGE_JPEG_TILE_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JPEG_TILE_MCU_PIXELS = 16 /* a side, of what jpeg_encode writes */ };

/* How many MCUs of a row make a segment: the divisor of their number that makes segments of 32
 * pixels, or the least above; the whole row where there is no other. mcu_width in pixels. */
uint32_t jpeg_tile_interval(uint32_t width, uint32_t mcu_width);

/* The largest width, at most the given one, whose MCUs of JPEG_TILE_MCU_PIXELS make segments of 32
 * pixels: an even number of them. The given one where that were more than a sixteenth less. */
uint32_t jpeg_tile_width(uint32_t width);

/* Appends the transcoded file to out, having read all of its coefficients. *ret_tiled is false, and
 * nothing appended, where the file serves best as it is: it is tiled already, CMYK or YCCK (whose
 * parts are not cut), or of a form that one baseline scan can't take; its data has then not been
 * looked at. path (may be NULL) serves messages. -EBADMSG as jpeg_decode, -ENOMEM. */
int jpeg_tile(const void *data, size_t bytes, const char *path, struct str *out, bool *ret_tiled,
              struct err *err);

#endif
