/*
 * jpeg_tile — see jpeg_tile.h.
 */
#include "image/jpeg/jpeg_tile.h"

#include "base/bytes.h"
#include "image/jpeg/jpeg_cut.h"
#include "image/jpeg/jpeg_reader.h"
#include "image/jpeg/jpeg_writer.h"

#include <errno.h>
#include <stdlib.h>

enum {
    SEGMENT_PIXELS = 32,
    WIDTH_LOSS_DIVISOR = 16, /* a width is reduced by at most a sixteenth */
};

/* State of one jpeg_tile call. */
struct transcoding {
    struct jpeg_reader reader;
    struct jpeg_writer writer;
    jvirt_barray_ptr *coefficients; /* owned by the reader's codec */
    uint32_t restart_interval;
};

uint32_t jpeg_tile_interval(uint32_t width, uint32_t mcu_width)
{
    uint32_t mcus = (uint32_t)bytes_divide_up(width, mcu_width);
    uint32_t interval = (uint32_t)bytes_divide_up(SEGMENT_PIXELS, mcu_width);
    while (interval < mcus && mcus % interval != 0)
        interval++;
    return interval < mcus ? interval : mcus;
}

uint32_t jpeg_tile_width(uint32_t width)
{
    uint32_t mcus = (uint32_t)bytes_divide_up(width, JPEG_TILE_MCU_PIXELS);
    uint32_t even_width = (mcus - 1) * JPEG_TILE_MCU_PIXELS;
    return mcus % 2 == 0 || (width - even_width) * WIDTH_LOSS_DIVISOR > width ? width : even_width;
}

static void read_coefficients(void *context)
{
    struct transcoding *transcoding = context;
    j_decompress_ptr codec = &transcoding->reader.codec;
    transcoding->coefficients = jpeg_read_coefficients(codec);
}

/* Writes metadata as read, including JFIF and Adobe segments. */
static void write_coefficients(void *context)
{
    struct transcoding *transcoding = context;
    j_decompress_ptr from = &transcoding->reader.codec;
    j_compress_ptr to = &transcoding->writer.codec;
    jpeg_copy_critical_parameters(from, to);
    to->write_JFIF_header = FALSE;
    to->write_Adobe_marker = FALSE;
    to->optimize_coding = TRUE;
    to->restart_interval = transcoding->restart_interval;
    jpeg_write_coefficients(to, transcoding->coefficients);
    for (jpeg_saved_marker_ptr marker = from->marker_list; marker; marker = marker->next)
        jpeg_write_marker(to, marker->marker, marker->data, marker->data_length);
    jpeg_finish_compress(to);
}

static bool is_tiled(const void *data, size_t bytes, uint32_t restart_interval)
{
    struct jpeg_headers headers;
    struct jpeg_cut_grid grid;
    return jpeg_read_headers(data, bytes, bytes, NULL, &headers, NULL) == 0 &&
           headers.restart_interval == restart_interval && jpeg_cut_grid_of(&headers, &grid);
}

static int transcode(struct transcoding *transcoding, struct str *out, bool *ret_tiled,
                     struct err *err)
{
    int status = jpeg_reader_guard(&transcoding->reader, read_coefficients, transcoding, err);
    if (status)
        return status;
    status = jpeg_writer_init(&transcoding->writer, out, err);
    if (!status)
        status = jpeg_writer_guard(&transcoding->writer, write_coefficients, transcoding, err);
    jpeg_writer_deinit(&transcoding->writer);
    *ret_tiled = status == 0;
    if (status != -EINVAL)
        return status;
    err_clear(err); /* an image that one scan cannot represent */
    return 0;
}

int jpeg_tile(const void *data, size_t bytes, const char *path, struct str *out, bool *ret_tiled,
              struct err *err)
{
    struct transcoding *transcoding = calloc(1, sizeof *transcoding);
    struct jpeg_info info;
    if (!transcoding)
        return err_set(err, -ENOMEM, "not enough memory to tile a JPEG");
    *ret_tiled = false;
    jpeg_reader_init(&transcoding->reader, JPEG_MARKERS_SAVE);
    int status = jpeg_reader_begin(&transcoding->reader, data, bytes, path, &info, err);
    if (status)
        goto out;
    int mcu_blocks = info.components == 1 ? 1 : transcoding->reader.codec.max_h_samp_factor;
    transcoding->restart_interval = jpeg_tile_interval(info.width, (uint32_t)mcu_blocks * DCTSIZE);
    bool converted = info.color == JPEG_CMYK || info.color == JPEG_YCCK;
    if (!converted && !is_tiled(data, bytes, transcoding->restart_interval))
        status = transcode(transcoding, out, ret_tiled, err);
out:
    jpeg_reader_deinit(&transcoding->reader);
    free(transcoding);
    return status;
}
