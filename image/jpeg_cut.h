/*
 * jpeg_cut — a part of a JPEG cut out of its compressed bytes, without decoding. Pure; no library.
 *
 * Restart markers end a segment of the entropy-coded data: whole bytes, and a decoder that begins
 * behind one needs nothing of what stood before. Where a segment is k MCUs and k divides the MCUs
 * of a row, the image is a grid of segments:
 *
 *     SOI APPn DQT SOF DHT DRI=2 SOS
 *       row 0    segment RST0 segment RST1 segment RST2 segment RST3
 *       row 1    segment RST4 segment RST5 segment RST6 segment RST7
 *       row 2    segment RST0 segment RST1 segment RST2 segment EOI
 *
 * and columns 1 and 2 of rows 1 and 2 are an image of their own:
 *
 *     SOI SOF DRI=2 SOS  segment RST0 segment RST1 segment RST2 segment EOI
 *
 * The header says the part's size; quantisation and Huffman tables are not repeated: it is a stream
 * in the abbreviated format (ITU-T T.81, B.4), for a decoder that has read the headers of the
 * whole. Its samples are those of the whole's, bit for bit.
 *
 * What can be cut is a baseline or extended sequential JPEG of 8 bits, Huffman coded, whose first
 * scan holds all of its components, one or three: four are CMYK or YCCK, whose planes are not taken
 * as they are stored. The markers up to the end of the part are checked; what stands in segments
 * that are left out is not: data lost there goes unnoticed, which is why conversion and `millrace
 * verify` decode whole images.
 */
#ifndef MILLRACE_IMAGE_JPEG_CUT_H
#define MILLRACE_IMAGE_JPEG_CUT_H

#include "base/str.h"
#include "image/jpeg_headers.h"
#include "image/rect.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Immutable. */
struct jpeg_cut_grid {
    uint32_t width, height; /* of the image in pixels */
    uint32_t segment_width,
        segment_height;     /* in pixels; the image may end within the last column and row */
    uint32_t columns, rows; /* of segments */
};

/* Whether the headers are of a JPEG that can be cut, and its grid. */
bool jpeg_cut_grid_of(const struct jpeg_headers *headers, struct jpeg_cut_grid *ret_grid);

/* The smallest part of whole segments that holds a part of the image, which is not empty. Only its
 * right and bottom edges, where the image ends there, need not be edges of segments. */
struct image_rect jpeg_cut_align(const struct jpeg_cut_grid *grid, struct image_rect part);

/* Appends to out the stream of a part that is aligned. data: the whole file, of which headers and
 * grid are. -ENOTSUP, and out as it was, where its markers are not what they should be: decode it
 * whole, which says what is wrong. -ENOMEM. */
int jpeg_cut(const void *data, size_t bytes, const struct jpeg_headers *headers,
             const struct jpeg_cut_grid *grid, struct image_rect part, struct str *out);

#endif
