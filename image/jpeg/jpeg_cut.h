/*
 * jpeg_cut — cuts a part of a JPEG out of its compressed bytes, without decoding.
 *
 * Restart markers separate segments of the entropy-coded data. A segment consists of whole bytes
 * and decodes independently of what precedes it. If a segment has k MCUs and k divides the
 * number of MCUs in a row, the image is a grid of segments:
 *
 *     SOI APPn DQT SOF DHT DRI=2 SOS
 *       row 0    segment RST0 segment RST1 segment RST2 segment RST3
 *       row 1    segment RST4 segment RST5 segment RST6 segment RST7
 *       row 2    segment RST0 segment RST1 segment RST2 segment EOI
 *
 * Columns 1 and 2 of rows 1 and 2 then form a separate image:
 *
 *     SOI SOF DRI=2 SOS  segment RST0 segment RST1 segment RST2 segment EOI
 *
 * The header has the part's size. Quantization and Huffman tables are omitted: the stream is in
 * the abbreviated format (ITU-T T.81, B.4), for a decoder that has read the whole image's
 * headers. Its samples equal those of the whole image, bit for bit.
 *
 * Only baseline or extended sequential JPEGs can be cut: 8 bits, Huffman coded, with one or
 * three components, all in the first scan. (Four components are CMYK or YCCK: their planes need
 * conversion.) Markers through the end of the part are checked, but not the contents of omitted
 * segments; conversion and `millrace verify` therefore decode whole images.
 */
#ifndef MILLRACE_IMAGE_JPEG_JPEG_CUT_H
#define MILLRACE_IMAGE_JPEG_JPEG_CUT_H

#include "base/str.h"
#include "image/jpeg/jpeg_headers.h"
#include "image/rect.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Immutable. */
struct jpeg_cut_grid {
    uint32_t width, height; /* of the image in pixels */
    /* In pixels; the image may end within the last column and row. */
    uint32_t segment_width, segment_height;
    uint32_t columns, rows; /* number of segments */
};

/* False if a JPEG with these headers cannot be cut. */
bool jpeg_cut_grid_of(const struct jpeg_headers *headers, struct jpeg_cut_grid *ret_grid);

/* Returns the smallest rectangle of whole segments that contains part (not empty). Segments at the
 * right and bottom end at image edges. */
struct image_rect jpeg_cut_align(const struct jpeg_cut_grid *grid, struct image_rect part);

/* Appends an aligned part's stream to out. data: the whole file that headers and grid describe.
 * -ENOTSUP, with out unchanged: unexpected markers; decoding the whole file reports the error.
 * -ENOMEM. */
int jpeg_cut(const void *data, size_t bytes, const struct jpeg_headers *headers,
             const struct jpeg_cut_grid *grid, struct image_rect part, struct str *out);

#endif
