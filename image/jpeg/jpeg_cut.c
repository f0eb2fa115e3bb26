/*
 * jpeg_cut — see jpeg_cut.h.
 */
#include "image/jpeg/jpeg_cut.h"

#include "base/bytes.h"
#include "image/jpeg_fast/scan_segments.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum {
    BLOCK_SIDE = 8,
    MARKER_RST0 = 0xd0,
    MARKER_SOI = 0xd8,
    MARKER_EOI = 0xd9,
    MARKER_DRI = 0xdd,
    MARKER_BYTES = 2,
    /* After the marker: length, precision, height, width, number of components; then 3 bytes per
     * component. */
    FRAME_BYTES = 8,
    FRAME_HEIGHT_AT = MARKER_BYTES + 3,
    FRAME_WIDTH_AT = MARKER_BYTES + 5,
    /* After the marker: length, number of components, three parameters; then 2 bytes per
     * component. */
    SCAN_BYTES = 6,
    RESTART_BYTES = 4,
    HEADER_BYTES_MAX = MARKER_BYTES + MARKER_BYTES + FRAME_BYTES + 3 * JPEG_COMPONENTS_MAX +
                       MARKER_BYTES + RESTART_BYTES + MARKER_BYTES + SCAN_BYTES +
                       2 * JPEG_COMPONENTS_MAX,
};

bool jpeg_cut_grid_of(const struct jpeg_headers *headers, struct jpeg_cut_grid *ret_grid)
{
    uint32_t components = headers->components, interval = headers->restart_interval;
    bool is_sequential = headers->process == JPEG_BASELINE || headers->process == JPEG_EXTENDED;
    if (interval == 0 || (components != 1 && components != 3) || !is_sequential ||
        headers->arithmetic || headers->hierarchical || headers->precision_bits != 8 ||
        headers->scan_components != components || headers->stray_bytes > 0)
        return false;
    /* in a scan of one component, an MCU is one block */
    uint32_t mcu_width =
        BLOCK_SIDE * (components == 1 ? 1 : jpeg_max_factor(headers->h_samp, components));
    uint32_t mcu_height =
        BLOCK_SIDE * (components == 1 ? 1 : jpeg_max_factor(headers->v_samp, components));
    uint32_t mcus = (uint32_t)bytes_divide_up(headers->width, mcu_width);
    if (mcus % interval != 0)
        return false;
    *ret_grid = (struct jpeg_cut_grid){
        .width = headers->width,
        .height = headers->height,
        .segment_width = interval * mcu_width,
        .segment_height = mcu_height,
        .columns = mcus / interval,
        .rows = (uint32_t)bytes_divide_up(headers->height, mcu_height),
    };
    return true;
}

/* Extends the range of `length` samples from `begin` to segment boundaries. */
static void align_to_segments(uint32_t *begin, uint32_t *length, uint32_t segment, uint32_t image)
{
    uint32_t end = (uint32_t)bytes_divide_up(*begin + *length, segment) * segment;
    *begin -= *begin % segment;
    *length = (end < image ? end : image) - *begin;
}

struct image_rect jpeg_cut_align(const struct jpeg_cut_grid *grid, struct image_rect part)
{
    assert(part.width >= 1 && part.height >= 1 && part.x < grid->width && part.y < grid->height);
    assert(part.width <= grid->width - part.x && part.height <= grid->height - part.y);
    align_to_segments(&part.x, &part.width, grid->segment_width, grid->width);
    align_to_segments(&part.y, &part.height, grid->segment_height, grid->height);
    return part;
}

static uint8_t *put(uint8_t *to, const void *data, size_t bytes)
{
    memcpy(to, data, bytes);
    return to + bytes;
}

static void put_u16(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
}

static uint8_t *put_header(uint8_t *to, const uint8_t *data, const struct jpeg_headers *headers,
                           struct image_rect part)
{
    static const uint8_t begin[] = {0xff, MARKER_SOI};
    uint8_t interval[] = {0xff, MARKER_DRI, 0, RESTART_BYTES, 0, 0};
    size_t frame_bytes = MARKER_BYTES + FRAME_BYTES + 3 * (size_t)headers->components;
    to = put(to, begin, sizeof begin);
    uint8_t *frame = to;
    to = put(to, data + headers->frame_offset, frame_bytes);
    put_u16(frame + FRAME_HEIGHT_AT, part.height);
    put_u16(frame + FRAME_WIDTH_AT, part.width);
    put_u16(interval + 4, headers->restart_interval);
    to = put(to, interval, sizeof interval);
    return put(to, data + headers->scan_offset, headers->header_bytes - headers->scan_offset);
}

/* Copies the part's segments, each with the marker that follows it. */
static int put_segments(uint8_t *to, const uint8_t *at, const uint8_t *end,
                        const struct jpeg_cut_grid *grid, struct image_rect part, uint8_t **ret_to)
{
    uint32_t first_row = part.y / grid->segment_height, first_column = part.x / grid->segment_width;
    uint32_t end_row = (uint32_t)bytes_divide_up(part.y + part.height, grid->segment_height);
    uint32_t end_column = (uint32_t)bytes_divide_up(part.x + part.width, grid->segment_width);
    uint32_t number = 0, copied = 0;
    for (uint32_t row = 0; row < end_row; row++) {
        bool last_row = row + 1 == grid->rows, ends = row + 1 == end_row;
        for (uint32_t column = 0; column < (ends ? end_column : grid->columns); column++) {
            const uint8_t *from = at;
            int marker = scan_segments_find_marker(&at, end, NULL);
            /* Anything may follow the image. */
            bool last = last_row && column + 1 == grid->columns;
            if (marker < 0 || (!last && marker != MARKER_RST0 + (int)(number % 8)))
                return -ENOTSUP;
            if (row >= first_row && column >= first_column && column < end_column) {
                to = put(to, from, (size_t)(at - from) - MARKER_BYTES);
                *to++ = 0xff;
                *to++ = (uint8_t)(MARKER_RST0 + copied++ % 8);
            }
            number++;
        }
    }
    *ret_to = to;
    return 0;
}

int jpeg_cut(const void *data, size_t bytes, const struct jpeg_headers *headers,
             const struct jpeg_cut_grid *grid, struct image_rect part, struct str *out)
{
    const uint8_t *from = data;
    assert(headers->header_bytes <= bytes);
    if (headers->header_bytes - headers->scan_offset !=
        MARKER_BYTES + SCAN_BYTES + 2 * (size_t)headers->components)
        return -ENOTSUP;
    if (str_reserve(out, HEADER_BYTES_MAX + bytes))
        return -ENOMEM;
    uint8_t *start = (uint8_t *)out->data + out->bytes,
            *to = put_header(start, from, headers, part);
    int status = put_segments(to, from + headers->header_bytes, from + bytes, grid, part, &to);
    if (status)
        return status;
    to[-1] = MARKER_EOI; /* replaces the last segment's RST */
    out->bytes += (size_t)(to - start);
    return 0;
}
