/*
 * scan_segments — see scan_segments.h.
 */
#include "image/jpeg_fast/scan_segments.h"

#include "base/bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    MARKER_BYTES = 2,
    MARKER_RST0 = 0xd0,
    MARKER_RST7 = 0xd7,
    RESTART_CYCLE = 8,
    FILL = 0xff,
};

int scan_segments_find_marker(const uint8_t **at, const uint8_t *end, uint8_t **copy)
{
    while (end - *at >= MARKER_BYTES) {
        const uint8_t *ff = memchr(*at, 0xff, (size_t)(end - *at) - 1);
        if (!ff)
            return -1;
        if (copy) {
            memcpy(*copy, *at, (size_t)(ff - *at));
            *copy += ff - *at;
        }
        *at = ff + MARKER_BYTES;
        if (ff[1] != 0)
            return ff[1];
        if (copy)
            *(*copy)++ = 0xff;
    }
    return -1;
}

/* A restart marker or fill byte (FF FF) may belong to data that follows. */
static bool may_end_scan(int marker)
{
    return marker > 0 && marker != FILL && (marker < MARKER_RST0 || marker > MARKER_RST7);
}

/* The first MCU below the part. */
static uint32_t needed_end(const struct scan_layout *layout)
{
    return layout->columns * (layout->part.y + layout->part.height);
}

static uint64_t end_bits(const struct scan_segments *segments)
{
    return 8 * (uint64_t)(segments->to - segments->data);
}

/* Of MCUs first to end - 1, which begin in the part's last row or above. */
static bool is_needed(const struct scan_layout *layout, uint32_t first, uint32_t end)
{
    const struct image_rect *part = &layout->part;
    uint32_t row = first / layout->columns, last_row = (end - 1) / layout->columns;
    if (!layout->skip)
        return true;
    if (row != last_row)
        return last_row >= part->y && row < part->y + part->height;
    uint32_t column = first % layout->columns, last_column = (end - 1) % layout->columns;
    return row >= part->y && row < part->y + part->height && last_column >= part->x &&
           column < part->x + part->width;
}

int scan_segments_begin(struct scan_segments *segments, const struct scan_layout *layout,
                        const uint8_t *data, size_t bytes, size_t slack_bytes)
{
    if (bytes + slack_bytes > segments->capacity) {
        free(segments->data);
        segments->capacity = 0;
        segments->data = calloc(1, bytes + slack_bytes);
        if (!segments->data)
            return -ENOMEM;
        segments->capacity = bytes + slack_bytes;
    }
    segments->layout = *layout;
    if (layout->restart_interval == 0)
        segments->layout.restart_interval = layout->columns * layout->rows;
    segments->at = data;
    segments->end = data + bytes;
    segments->to = segments->data;
    segments->next = segments->ahead_next = segments->ahead_count = 0;
    segments->count =
        (uint32_t)bytes_divide_up(needed_end(layout), segments->layout.restart_interval);
    return 0;
}

/* As scan_segments_next, without reading ahead. */
static int read_segment(struct scan_segments *segments, struct scan_segment *ret_segment)
{
    const struct scan_layout *layout = &segments->layout;
    uint32_t total = layout->columns * layout->rows, interval = layout->restart_interval;
    while (segments->next < segments->count) {
        uint32_t number = segments->next++, first = number * interval;
        uint32_t end = total - first < interval ? total : first + interval;
        bool needed = is_needed(layout, first, end);
        uint64_t begin_bits = end_bits(segments);
        int marker =
            scan_segments_find_marker(&segments->at, segments->end, needed ? &segments->to : NULL);
        if (end < total ? marker != MARKER_RST0 + (int)(number % RESTART_CYCLE)
                        : !may_end_scan(marker))
            return -ENOTSUP;
        if (!needed)
            continue;
        uint32_t decode_end = (uint32_t)bytes_min(end, needed_end(layout));
        *ret_segment = (struct scan_segment){
            .begin_bits = begin_bits,
            .end_bits = end_bits(segments),
            .first_mcu = first,
            .mcus = decode_end - first,
            .is_complete = decode_end == end,
        };
        return 1;
    }
    return 0;
}

int scan_segments_next(struct scan_segments *segments, struct scan_segment *ret_segment)
{
    if (segments->ahead_next == segments->ahead_count) {
        int status = 1;
        segments->ahead_next = segments->ahead_count = 0;
        while (segments->ahead_count < SCAN_SEGMENTS_AHEAD && status > 0) {
            status = read_segment(segments, &segments->ahead[segments->ahead_count]);
            segments->ahead_count += status > 0;
        }
        if (status < 0 || segments->ahead_count == 0)
            return status;
    }
    *ret_segment = segments->ahead[segments->ahead_next++];
    return 1;
}

void scan_segments_deinit(struct scan_segments *segments)
{
    free(segments->data);
}
