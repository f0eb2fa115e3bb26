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
    SEGMENT_BYTES_MIN = MARKER_BYTES + 1,
    MARKER_RST0 = 0xd0,
    MARKER_RST7 = 0xd7,
    RESTART_CYCLE = 8,
    FILL = 0xff
};

/* Entropy-coded data being read, and the memory for it without stuffing. */
struct scan_reader {
    const uint8_t *at, *end;
    uint8_t *to;
};

/* Reads the bytes before the next marker, and copies them without the 00 after each FF if asked.
 * Returns the marker, or -1 if the data ends first. */
static int read_segment(struct scan_reader *reader, bool copies)
{
    while (reader->end - reader->at >= MARKER_BYTES) {
        const uint8_t *ff = memchr(reader->at, 0xff, (size_t)(reader->end - reader->at) - 1);
        if (!ff)
            return -1;
        size_t bytes = (size_t)(ff - reader->at);
        if (copies) {
            memcpy(reader->to, reader->at, bytes);
            reader->to += bytes;
        }
        reader->at = ff + MARKER_BYTES;
        if (ff[1] != 0)
            return ff[1];
        if (copies)
            *reader->to++ = 0xff;
    }
    return -1;
}

/* A restart marker or fill byte (FF FF) may belong to data that follows. */
static bool may_end_scan(int marker)
{
    return marker > 0 && marker != FILL && (marker < MARKER_RST0 || marker > MARKER_RST7);
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

static int reserve(struct scan_segments *segments, size_t data_bytes, uint32_t count)
{
    if (data_bytes > segments->data_capacity) {
        free(segments->data);
        segments->data_capacity = 0;
        segments->data = calloc(1, data_bytes);
        if (!segments->data)
            return -ENOMEM;
        segments->data_capacity = data_bytes;
    }
    if (count > segments->capacity) {
        free(segments->segment);
        segments->capacity = 0;
        segments->segment = calloc(count, sizeof segments->segment[0]);
        if (!segments->segment)
            return -ENOMEM;
        segments->capacity = count;
    }
    segments->count = 0;
    return 0;
}

int scan_segments_read(struct scan_segments *segments, const struct scan_layout *layout,
                       const uint8_t *data, size_t bytes, size_t slack_bytes)
{
    uint32_t total = layout->columns * layout->rows;
    uint32_t interval = layout->restart_interval ? layout->restart_interval : total;
    uint32_t needed_end = layout->columns * (layout->part.y + layout->part.height);
    uint32_t count = (uint32_t)bytes_divide_up(needed_end, interval);
    if (count > bytes / SEGMENT_BYTES_MIN)
        return -ENOTSUP; /* before memory is reserved: each segment ends in a marker */
    int status = reserve(segments, bytes + slack_bytes, count);
    if (status)
        return status;
    struct scan_reader reader = {data, data + bytes, segments->data};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = i * interval;
        uint32_t end = total - first < interval ? total : first + interval;
        bool needed = is_needed(layout, first, end);
        uint64_t begin_bits = 8 * (uint64_t)(reader.to - segments->data);
        int marker = read_segment(&reader, needed);
        if (end < total ? marker != MARKER_RST0 + (int)(i % RESTART_CYCLE) : !may_end_scan(marker))
            return -ENOTSUP;
        if (!needed)
            continue;
        uint32_t decode_end = end < needed_end ? end : needed_end;
        segments->segment[segments->count++] = (struct scan_segment){
            .begin_bits = begin_bits,
            .end_bits = 8 * (uint64_t)(reader.to - segments->data),
            .first_mcu = first,
            .mcus = decode_end - first,
            .is_complete = decode_end == end,
        };
    }
    return 0;
}

void scan_segments_deinit(struct scan_segments *segments)
{
    free(segments->data);
    free(segments->segment);
}
