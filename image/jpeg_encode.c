/*
 * jpeg_encode — see jpeg.h. Encoding; libjpeg's longjmp is handled as in jpeg.c.
 */
#include "image/jpeg.h"

#include <assert.h>
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include <jerror.h>

enum { PIECE_BYTES = 16384 };

/* Owner thread; lives in one call of jpeg_encode. */
struct encoder {
    struct jpeg_compress_struct codec;
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr destination;
    jmp_buf jump;
    const uint8_t *rgb;
    uint32_t width, height;
    size_t stride_bytes;
    int quality;
    struct str *out;
    uint8_t piece[PIECE_BYTES];
};

static void start_piece(j_compress_ptr codec)
{
    struct encoder *encoder = codec->client_data;
    codec->dest->next_output_byte = encoder->piece;
    codec->dest->free_in_buffer = PIECE_BYTES;
}

static void add_piece(j_compress_ptr codec, size_t bytes)
{
    struct encoder *encoder = codec->client_data;
    str_add(encoder->out, encoder->piece, bytes);
    if (str_status(encoder->out))
        ERREXIT1(codec, JERR_OUT_OF_MEMORY, 0);
}

static boolean finish_piece(j_compress_ptr codec)
{
    add_piece(codec, PIECE_BYTES);
    start_piece(codec);
    return TRUE;
}

static void finish_last_piece(j_compress_ptr codec)
{
    add_piece(codec, PIECE_BYTES - codec->dest->free_in_buffer);
}

static void on_error(j_common_ptr codec)
{
    struct encoder *encoder = codec->client_data;
    longjmp(encoder->jump, 1);
}

static void on_output(j_common_ptr codec)
{
    (void)codec;
}

static void encode(struct encoder *encoder)
{
    j_compress_ptr codec = &encoder->codec;
    jpeg_create_compress(codec);
    codec->dest = &encoder->destination;
    codec->image_width = encoder->width;
    codec->image_height = encoder->height;
    codec->input_components = 3;
    codec->in_color_space = JCS_RGB;
    jpeg_set_defaults(codec); /* YCbCr, 4:2:0 */
    jpeg_set_quality(codec, encoder->quality, TRUE);
    codec->optimize_coding = TRUE;
    codec->dct_method = JDCT_ISLOW;
    jpeg_start_compress(codec, TRUE);
    while (codec->next_scanline < codec->image_height) {
        JSAMPROW row = (JSAMPROW)(encoder->rgb + codec->next_scanline * encoder->stride_bytes);
        jpeg_write_scanlines(codec, &row, 1);
    }
    jpeg_finish_compress(codec);
}

static int guarded(struct encoder *encoder, struct err *err)
{
    char message[JMSG_LENGTH_MAX];
    if (!setjmp(encoder->jump)) {
        encode(encoder);
        return 0;
    }
    if (encoder->errors.msg_code == JERR_OUT_OF_MEMORY)
        return err_set(err, -ENOMEM, "no memory to encode a JPEG");
    encoder->errors.format_message((j_common_ptr)&encoder->codec, message);
    return err_set(err, -EINVAL, "JPEG can't be encoded: %s", message);
}

int jpeg_encode(const uint8_t *rgb, uint32_t width, uint32_t height, size_t stride_bytes, int quality,
                struct str *out, struct err *err)
{
    assert(width >= 1 && height >= 1 && quality >= 1 && quality <= 100);
    assert(stride_bytes >= 3 * (size_t)width);
    struct encoder encoder = {
        .rgb = rgb,
        .width = width,
        .height = height,
        .stride_bytes = stride_bytes,
        .quality = quality,
        .out = out,
        .destination = {.init_destination = start_piece,
                        .empty_output_buffer = finish_piece,
                        .term_destination = finish_last_piece},
    };
    size_t bytes_before = out->bytes;
    encoder.codec.err = jpeg_std_error(&encoder.errors);
    encoder.codec.client_data = &encoder;
    encoder.errors.error_exit = on_error;
    encoder.errors.output_message = on_output;
    int status = guarded(&encoder, err);
    jpeg_destroy_compress(&encoder.codec);
    if (status && out->data) {
        out->bytes = bytes_before;
        out->data[bytes_before] = '\0';
    }
    return status;
}
