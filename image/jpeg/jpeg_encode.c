/*
 * jpeg_encode — encodes pixels (jpeg.h).
 */
#include "image/jpeg/jpeg.h"

#include "image/jpeg/jpeg_writer.h"

#include <assert.h>

/* State of one jpeg_encode call. */
struct encoding {
    struct jpeg_writer writer;
    const uint8_t *rgb;
    uint32_t width, height;
    size_t stride_bytes;
    int quality;
    uint32_t restart_interval;
};

static void encode(void *context)
{
    struct encoding *encoding = context;
    j_compress_ptr codec = &encoding->writer.codec;
    codec->image_width = encoding->width;
    codec->image_height = encoding->height;
    codec->input_components = 3;
    codec->in_color_space = JCS_RGB;
    jpeg_set_defaults(codec); /* YCbCr, 4:2:0 */
    jpeg_set_quality(codec, encoding->quality, TRUE);
    codec->optimize_coding = TRUE;
    codec->dct_method = JDCT_ISLOW;
    codec->restart_interval = encoding->restart_interval;
    jpeg_start_compress(codec, TRUE);
    while (codec->next_scanline < codec->image_height) {
        JSAMPROW row = (JSAMPROW)(encoding->rgb + codec->next_scanline * encoding->stride_bytes);
        jpeg_write_scanlines(codec, &row, 1);
    }
    jpeg_finish_compress(codec);
}

int jpeg_encode(const uint8_t *rgb, uint32_t width, uint32_t height, size_t stride_bytes,
                int quality, uint32_t restart_interval, struct str *out, struct err *err)
{
    assert(width >= 1 && height >= 1 && quality >= 1 && quality <= 100 &&
           restart_interval <= UINT16_MAX);
    assert(stride_bytes >= 3 * (size_t)width);
    struct encoding encoding = {
        .rgb = rgb,
        .width = width,
        .height = height,
        .stride_bytes = stride_bytes,
        .quality = quality,
        .restart_interval = restart_interval,
    };
    int status = jpeg_writer_init(&encoding.writer, out, err);
    if (!status)
        status = jpeg_writer_guard(&encoding.writer, encode, &encoding, err);
    jpeg_writer_deinit(&encoding.writer);
    return status;
}
