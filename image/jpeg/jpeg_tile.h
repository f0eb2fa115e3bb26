/*
 * jpeg_tile — losslessly transcodes a JPEG to one with restart markers, so that parts can be cut
 * out (jpeg_cut.h).
 *
 * Keeps the quantized coefficients, quantization tables, sampling, and metadata segments (JFIF,
 * EXIF, ICC, Adobe, comments) in their order; optimizes the Huffman tables. Progressive and
 * arithmetic files become baseline. Data after the image (a second one, from some cameras) is
 * dropped. The same file gives the same bytes.
 */
#ifndef MILLRACE_IMAGE_JPEG_JPEG_TILE_H
#define MILLRACE_IMAGE_JPEG_JPEG_TILE_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JPEG_TILE_MCU_PIXELS = 16 /* side of an MCU that jpeg_encode writes */ };

/* Returns the number of MCUs per segment: the least divisor of the number of MCUs in a row that
 * gives segments at least 32 pixels wide, or else the whole row. mcu_width in pixels. */
uint32_t jpeg_tile_interval(uint32_t width, uint32_t mcu_width);

/* Returns the largest width, at most the given one, whose MCUs of JPEG_TILE_MCU_PIXELS form
 * segments of 32 pixels, or the given width if that would reduce it by more than a sixteenth. */
uint32_t jpeg_tile_width(uint32_t width);

/* Appends the transcoded file to out. Sets *ret_tiled to false and appends nothing, without
 * checking the data, if the file should stay as it is: already tiled, CMYK or YCCK (whose parts
 * cannot be cut), or not representable in one baseline scan. path (may be NULL) is for messages.
 * -EBADMSG as from jpeg_decode; -ENOMEM. */
int jpeg_tile(const void *data, size_t bytes, const char *path, struct str *out, bool *ret_tiled,
              struct err *err);

#endif
