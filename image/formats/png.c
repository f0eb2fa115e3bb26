/*
 * png — see png.h.
 */
#include "image/formats/png.h"

#include "image/formats/exif.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <spng.h>

/* Limit on all chunks except image data, because text and profiles are decompressed. */
enum { CHUNKS_BYTES_MAX = 64 << 20 };

static int decoding_error(const struct png_decoder *decoder, int code, struct err *err)
{
    if (code == SPNG_EMEM)
        return err_set(err, -ENOMEM, "not enough memory to decode a PNG");
    return pixels_error("PNG", decoder->path, ERR_NO_OFFSET, spng_strerror(code), err);
}

static const char *color_name(uint8_t color_type)
{
    switch (color_type) {
    case SPNG_COLOR_TYPE_GRAYSCALE:
        return "gray";
    case SPNG_COLOR_TYPE_TRUECOLOR:
        return "RGB";
    case SPNG_COLOR_TYPE_INDEXED:
        return "palette";
    case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA:
        return "gray and alpha";
    default:
        return "RGB and alpha";
    }
}

void png_decoder_deinit(struct png_decoder *decoder)
{
    spng_ctx_free(decoder->codec);
    decoder->codec = NULL;
}

/* ---- Headers. ---- */

static int read_headers(struct png_decoder *decoder, const void *data, size_t bytes,
                        uint32_t *ret_orientation, struct err *err)
{
    struct spng_exif exif;
    struct spng_ihdr header;
    *ret_orientation = 1;
    int code = spng_set_image_limits(decoder->codec, PIXELS_SIDE_MAX, PIXELS_SIDE_MAX);
    if (!code)
        code = spng_set_chunk_limits(decoder->codec, CHUNKS_BYTES_MAX, CHUNKS_BYTES_MAX);
    if (!code)
        code = spng_set_png_buffer(decoder->codec, data, bytes);
    if (!code)
        code = spng_get_ihdr(decoder->codec, &header);
    if (code)
        return decoding_error(decoder, code, err);
    int status = pixels_check_size("PNG", decoder->path, header.width, header.height, err);
    if (status)
        return status;
    bool is_gray = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE && header.bit_depth <= 8;
    decoder->width = header.width;
    decoder->height = header.height;
    decoder->channels = is_gray ? 1 : 3;
    decoder->color_type = header.color_type;
    decoder->depth_bits = header.bit_depth;
    decoder->interlaced = header.interlace_method != SPNG_INTERLACE_NONE;
    code = spng_get_exif(decoder->codec, &exif);
    if (code == 0)
        *ret_orientation = exif_orientation_of_tiff((const uint8_t *)exif.data, exif.length);
    return code && code != SPNG_ECHUNKAVAIL ? decoding_error(decoder, code, err) : 0;
}

int png_begin(struct png_decoder *decoder, const void *data, size_t bytes, const char *path,
              struct pixels_info *ret_info, struct err *err)
{
    uint32_t orientation;
    png_decoder_deinit(decoder);
    decoder->path = path;
    decoder->codec = spng_ctx_new(0);
    if (!decoder->codec)
        return err_set(err, -ENOMEM, "not enough memory to decode a PNG");
    int status = read_headers(decoder, data, bytes, &orientation, err);
    if (status) {
        png_decoder_deinit(decoder);
        return status;
    }
    *ret_info = (struct pixels_info){.width = decoder->width,
                                     .height = decoder->height,
                                     .channels = decoder->channels,
                                     .orientation = orientation};
    return 0;
}

/* ---- Pixels. ---- */

/* Rows above the region overwrite each other in the first wanted row. */
static int decode_rows(struct png_decoder *decoder, int format, struct image_rect region,
                       uint8_t *rows, size_t row_bytes)
{
    int code = spng_decode_image(decoder->codec, NULL, 0, format, SPNG_DECODE_PROGRESSIVE);
    for (uint32_t row = 0; !code && row < region.y + region.height; row++)
        code = spng_decode_row(decoder->codec,
                               rows + (row < region.y ? 0 : row - region.y) * row_bytes, row_bytes);
    return code;
}

/* Decodes the rows of the region (NULL: all, and checks the file to its end), or all rows if they
 * are interlaced, in libspng's format. Closes the file. */
static int decode(struct png_decoder *decoder, int format, size_t row_bytes,
                  const struct image_rect *region, struct pixels_memory *memory,
                  struct image_rect *ret_rows, struct err *err)
{
    assert(decoder->codec); /* png_begin has succeeded */
    struct image_rect rows = {0, 0, decoder->width, decoder->height};
    if (region && !decoder->interlaced)
        rows = (struct image_rect){0, region->y, decoder->width, region->height};
    int status = pixels_reserve(memory, row_bytes * rows.height, err);
    int code = 0;
    if (!status)
        code = decoder->interlaced ? spng_decode_image(decoder->codec, memory->data,
                                                       row_bytes * rows.height, format, 0)
                                   : decode_rows(decoder, format, rows, memory->data, row_bytes);
    if (code == SPNG_EOI) /* after the last row */
        code = 0;
    if (!status && !code && !region)
        code = spng_decode_chunks(decoder->codec);
    if (!status && code)
        status = decoding_error(decoder, code, err);
    png_decoder_deinit(decoder);
    *ret_rows = rows;
    return status;
}

int png_decode_region(struct png_decoder *decoder, const struct image_rect *region,
                      struct pixels_memory *memory, struct pixels *ret_pixels, struct err *err)
{
    size_t row_bytes = (size_t)decoder->width * decoder->channels;
    struct image_rect rows;
    int status = decode(decoder, decoder->channels == 1 ? SPNG_FMT_G8 : SPNG_FMT_RGB8, row_bytes,
                        region, memory, &rows, err);
    if (status)
        return status;
    *ret_pixels = (struct pixels){.data = memory->data,
                                  .stride_bytes = row_bytes,
                                  .region = rows,
                                  .channels = decoder->channels};
    return 0;
}

/* ---- Masks. ---- */

static int wrong_color(struct png_decoder *decoder, struct err *err)
{
    err_set(err, -EBADMSG, "a PNG is not a mask of class numbers");
    err_at(err, decoder->path, ERR_NO_OFFSET);
    err_expected(err, "gray levels or palette indexes");
    err_found(err, "%s", color_name(decoder->color_type));
    err_advise(err, "store the mask as a gray or palette PNG");
    png_decoder_deinit(decoder);
    return -EBADMSG;
}

/* Expands packed numbers of depth_bits to bytes, in place. Each is written at or after the byte it
 * comes from, so the last comes first. */
static void unpack(uint8_t *data, uint32_t rows, uint32_t width, size_t packed_bytes,
                   uint32_t depth_bits)
{
    for (uint32_t y = rows; y-- > 0;) {
        const uint8_t *packed = data + y * packed_bytes;
        uint8_t *unpacked = data + (size_t)y * width;
        for (uint32_t x = width; x-- > 0;) {
            size_t bit = (size_t)x * depth_bits;
            unpacked[x] =
                (uint8_t)(packed[bit / 8] >> (8 - depth_bits - bit % 8) & ((1u << depth_bits) - 1));
        }
    }
}

int png_decode_mask(struct png_decoder *decoder, const struct image_rect *region,
                    struct pixels_memory *memory, struct image_mask *ret_mask, struct err *err)
{
    uint32_t depth_bits = decoder->depth_bits, value_bytes = depth_bits == 16 ? 2 : 1;
    size_t packed_bytes = ((size_t)decoder->width * depth_bits + 7) / 8,
           row_bytes = (size_t)decoder->width * value_bytes;
    bool is_part = region && !decoder->interlaced;
    struct image_rect rows;
    if (decoder->color_type != SPNG_COLOR_TYPE_GRAYSCALE &&
        decoder->color_type != SPNG_COLOR_TYPE_INDEXED)
        return wrong_color(decoder, err);
    /* for the unpacked rows */
    int status =
        pixels_reserve(memory, row_bytes * (is_part ? region->height : decoder->height), err);
    if (!status && decoder->interlaced) /* libspng adds packed numbers to what is there */
        memset(memory->data, 0, packed_bytes * decoder->height);
    if (!status)
        status = decode(decoder, SPNG_FMT_PNG, packed_bytes, region, memory, &rows, err);
    if (status) {
        png_decoder_deinit(decoder);
        return status;
    }
    if (depth_bits < 8)
        unpack(memory->data, rows.height, decoder->width, packed_bytes, depth_bits);
    *ret_mask = (struct image_mask){.data = memory->data,
                                    .value_bytes = value_bytes,
                                    .stride_bytes = row_bytes,
                                    .first_row = rows.y};
    return 0;
}

/* ---- Traits. ---- */

int png_probe(const void *data, size_t bytes, struct png_traits *ret_traits)
{
    struct png_decoder decoder = {0};
    struct pixels_info info;
    int status = png_begin(&decoder, data, bytes, NULL, &info, NULL);
    png_decoder_deinit(&decoder);
    if (status)
        return status;
    *ret_traits = (struct png_traits){.color = color_name(decoder.color_type),
                                      .depth_bits = decoder.depth_bits,
                                      .interlaced = decoder.interlaced};
    return 0;
}
