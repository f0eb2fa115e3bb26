/*
 * encode_image — see encode_image.h.
 */
#include "convert/dataset/encode_image.h"

#include "image/formats/pixels.h"
#include "image/formats/ppm.h"
#include "image/jpeg/jpeg.h"
#include "image/jpeg/jpeg_tile.h"
#include "image/pipeline/check.h"
#include "image/pipeline/pipeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct image_encoder {
    const struct convert_options *options;
    struct image_checker *checker;
    struct image_pipeline *pipeline;
    struct str original; /* tiled original, to compare sizes with the reencoded JPEG */
};

static int decode(struct image_encoder *encoder, const struct image_file *file, bool tile_aligned,
                  const uint8_t **ret_rgb, uint32_t *ret_width, uint32_t *ret_height,
                  struct err *err)
{
    struct image_bounds bounds = {encoder->options->max_side, tile_aligned};
    return image_pipeline_decode_whole(encoder->pipeline, file->data, file->bytes, file->path,
                                       bounds, ret_rgb, ret_width, ret_height, err);
}

static int keep_image(struct image_encoder *encoder, const struct image_file *file, struct str *out,
                      struct err *err)
{
    int status = image_check(encoder->checker, file->data, file->bytes, file->path, err);
    if (!status)
        str_add(out, file->data, file->bytes);
    return status;
}

static void count_jpeg(struct convert_jpeg_counts *jpegs, uint64_t *count, size_t source_bytes,
                       size_t written_bytes)
{
    ++*count;
    jpegs->source_bytes += source_bytes;
    jpegs->written_bytes += written_bytes;
}

static int tile_jpeg(struct image_encoder *encoder, const struct image_file *file, struct str *out,
                     struct convert_jpeg_counts *jpegs, struct err *err)
{
    size_t start = out->bytes;
    bool tiled;
    int status = jpeg_tile(file->data, file->bytes, file->path, out, &tiled, err);
    if (!status && !tiled)
        status = keep_image(encoder, file, out, err);
    if (!status)
        count_jpeg(jpegs, tiled ? &jpegs->tiled_count : &jpegs->kept_count, file->bytes,
                   out->bytes - start);
    return status;
}

static int encode_scaled_jpeg(struct image_encoder *encoder, const struct image_file *file,
                              struct str *out, struct err *err)
{
    uint32_t quality =
        encoder->options->quality ? encoder->options->quality : ENCODE_QUALITY_DEFAULT;
    const uint8_t *rgb;
    uint32_t width, height;
    int status = decode(encoder, file, true, &rgb, &width, &height, err);
    return status ? status
                  : jpeg_encode(rgb, width, height, 3 * (size_t)width, (int)quality,
                                jpeg_tile_interval(width, JPEG_TILE_MCU_PIXELS), out, err);
}

static bool exceeds_max_side(const struct image_encoder *encoder, const struct image_file *file)
{
    struct jpeg_info info;
    uint32_t side_max = encoder->options->max_side;
    return side_max > 0 && jpeg_probe(file->data, file->bytes, NULL, &info, NULL) == 0 &&
           (info.width > side_max || info.height > side_max);
}

/* Also reencodes small images, so that all have the same quality. If the result is larger than
 * the original, tiles the original instead. */
static int reencode_jpeg(struct image_encoder *encoder, const struct image_file *file,
                         struct str *out, struct convert_jpeg_counts *jpegs, struct err *err)
{
    size_t start = out->bytes;
    bool kept = false, tiled;
    int status = encode_scaled_jpeg(encoder, file, out, err);
    size_t bytes = out->bytes - start;
    if (!status && bytes > file->bytes && !exceeds_max_side(encoder, file)) {
        str_clear(&encoder->original);
        status = jpeg_tile(file->data, file->bytes, file->path, &encoder->original, &tiled, err);
        if (!status && !tiled)
            str_add(&encoder->original, file->data, file->bytes);
        kept = !status && encoder->original.bytes < bytes;
    }
    if (!status && kept) {
        out->bytes = start;
        str_add(out, encoder->original.data, encoder->original.bytes);
        status = str_status(&encoder->original);
    }
    if (!status)
        count_jpeg(jpegs, kept ? &jpegs->kept_count : &jpegs->reencoded_count, file->bytes,
                   out->bytes - start);
    return status;
}

static int store_raw_image(struct image_encoder *encoder, const struct image_file *file,
                           struct str *out, struct err *err)
{
    const uint8_t *rgb;
    uint32_t width, height;
    char header[PPM_HEADER_BYTES_MAX];
    int status = decode(encoder, file, false, &rgb, &width, &height, err);
    if (status)
        return status;
    str_add(out, header, ppm_write_header(header, width, height));
    str_add(out, rgb, 3 * (size_t)width * height);
    return 0;
}

int image_encode(struct image_encoder *encoder, const struct image_file *file,
                 char extension[SHARD_EXTENSION_BYTES_MAX], struct str *out,
                 struct convert_jpeg_counts *jpegs, struct err *err)
{
    const struct convert_options *options = encoder->options;
    if (options->store == CONVERT_STORE_RAW) {
        strcpy(extension, "ppm");
        return store_raw_image(encoder, file, out, err);
    }
    bool is_jpeg = image_kind_of(file->data, file->bytes) == IMAGE_JPEG;
    if (!is_jpeg || options->jpeg == CONVERT_JPEG_KEEP)
        return keep_image(encoder, file, out, err);
    if (strcmp(extension, "jpg") != 0) { /* misnamed */
        int status = keep_image(encoder, file, out, err);
        if (!status)
            count_jpeg(jpegs, &jpegs->kept_count, file->bytes, file->bytes);
        return status;
    }
    return options->jpeg == CONVERT_JPEG_TILE ? tile_jpeg(encoder, file, out, jpegs, err)
                                              : reencode_jpeg(encoder, file, out, jpegs, err);
}

int image_encoder_open(const struct convert_options *options, struct image_encoder **ret_encoder,
                       struct err *err)
{
    struct image_options pipeline_options = {
        .width = 1, .height = 1}; /* unused by image_pipeline_decode_whole */
    struct image_encoder *encoder = calloc(1, sizeof *encoder);
    if (!encoder)
        return err_set(err, -ENOMEM, "out of memory for an image encoder");
    encoder->options = options;
    int status = image_checker_open(&encoder->checker, err);
    if (!status)
        status = image_pipeline_open(&pipeline_options, &encoder->pipeline, err);
    if (status)
        image_encoder_close(encoder);
    else
        *ret_encoder = encoder;
    return status;
}

void image_encoder_close(struct image_encoder *encoder)
{
    if (!encoder)
        return;
    image_checker_close(encoder->checker);
    image_pipeline_close(encoder->pipeline);
    str_deinit(&encoder->original);
    free(encoder);
}
