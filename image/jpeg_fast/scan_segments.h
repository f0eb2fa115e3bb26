/*
 * scan_segments — finds the restart segments of a JPEG scan that a part needs, one after another,
 * and removes their byte stuffing (ITU-T T.81, F.1.2.3 and B.2.1).
 *
 *     scan_segments_begin(&segments, &layout, data, bytes, slack_bytes);
 *     while ((status = scan_segments_next(&segments, &segment)) > 0)
 *         ...    // bits segment.begin_bits to segment.end_bits - 1 of segments.data
 *     scan_segments_deinit(&segments);
 */
#ifndef MILLRACE_IMAGE_JPEG_FAST_SCAN_SEGMENTS_H
#define MILLRACE_IMAGE_JPEG_FAST_SCAN_SEGMENTS_H

#include "image/rect.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a scan's MCUs lie, row by row, and which of them are needed. */
struct scan_layout {
    uint32_t columns, rows;    /* of MCUs, at most 65535 */
    uint32_t restart_interval; /* in MCUs; 0: none */
    struct image_rect part;    /* in MCUs */
    bool skip;                 /* leave out segments outside of the part */
};

struct scan_segment {
    uint64_t begin_bits, end_bits; /* in scan_segments.data */
    uint32_t first_mcu, mcus;      /* mcus: to decode */
    bool is_complete;              /* no MCU follows */
};

/* Segments are read this many at a time. Reading one by one, in turn with decoding, costs 1 to 2 %
 * of the decoding time. */
enum { SCAN_SEGMENTS_AHEAD = 64 };

/* Memory that grows to the largest scan. Zero-initialized. */
struct scan_segments {
    uint8_t *data; /* of the segments read so far, without stuffing */
    size_t capacity;
    struct scan_layout layout;
    const uint8_t *at, *end; /* of the scan, not yet read */
    uint8_t *to;             /* end of the segments in data */
    uint32_t next, count; /* segments, from the first to those that begin in the part's last row */
    struct scan_segment ahead[SCAN_SEGMENTS_AHEAD]; /* read, but not yet returned from ahead_next */
    uint32_t ahead_next, ahead_count;
};

/* Begins with a scan. Borrows data until the last segment. slack_bytes: readable bytes after those
 * of the segments. -ENOMEM. */
int scan_segments_begin(struct scan_segments *segments, const struct scan_layout *layout,
                        const uint8_t *data, size_t bytes, size_t slack_bytes);
/* Reads the next segment. Without skip, the segments are all MCUs through the part's last row.
 * 1: there is one. 0: none is left. -ENOTSUP: a marker, also of a segment that is left out, is not
 * the expected one, or missing. */
int scan_segments_next(struct scan_segments *segments, struct scan_segment *ret_segment);
/* Moves *at past the next marker of entropy-coded data, where FF 00 stands for the byte FF. Unless
 * copy is NULL, writes the bytes before the marker to *copy, unstuffed, and moves it past them.
 * Returns the marker's second byte, or -1 if the data ends first. */
int scan_segments_find_marker(const uint8_t **at, const uint8_t *end, uint8_t **copy);
void scan_segments_deinit(struct scan_segments *segments);

#endif
