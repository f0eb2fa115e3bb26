/*
 * scan_segments — finds the restart segments of a JPEG scan that a part needs, and removes their
 * byte stuffing (ITU-T T.81, F.1.2.3 and B.2.1).
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

/* Memory that grows to the largest scan. Zero-initialized. */
struct scan_segments {
    uint8_t *data;
    size_t data_capacity;
    struct scan_segment *segment;
    uint32_t count, capacity;
};

/* Reads the segments of a scan. Without skip, these are all MCUs through the part's last row.
 * slack_bytes: readable bytes after the data. -ENOTSUP: a marker is not the expected one, or
 * missing. -ENOMEM. */
int scan_segments_read(struct scan_segments *segments, const struct scan_layout *layout,
                       const uint8_t *data, size_t bytes, size_t slack_bytes);
void scan_segments_deinit(struct scan_segments *segments);

#endif
