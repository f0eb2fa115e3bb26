/*
 * pipeline — see pipeline.h. render.c processes the samples.
 */
#include "image/pipeline/pipeline.h"

#include "image/formats/pixels.h"
#include "image/formats/webp.h"
#include "image/jpeg/jpeg.h"
#include "image/jpeg/jpeg_tile.h"
#include "image/kernels/augment_ops.h"
#include "image/pipeline/render.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct image_pipeline {
    struct image_options options;
    struct jpeg_decoder *jpeg;
    struct pixels_decoder *pixels; /* other kinds than JPEG */
    struct renderer renderer;
    enum image_kind kind;             /* of the last image or follower */
    struct image_geometry geometry;   /* of the last image run */
    struct pixels_memory whole_image; /* result of image_pipeline_decode_whole */
    uint8_t *augment_scratch;         /* as large as the target */
};

/* Headers of an image. */
struct image {
    enum image_kind kind;
    struct jpeg_info jpeg;
    struct pixels_info pixels;
    uint32_t width, height; /* as stored */
    uint32_t orientation;
};

static uint64_t pixels_max(const struct image_options *options)
{
    return options->pixels_max ? options->pixels_max : PIXELS_MAX;
}

static int check_pixels(const struct image_options *options, const struct image *image,
                        const char *path, struct err *err)
{
    uint64_t pixels = (uint64_t)image->width * image->height;
    if (pixels <= pixels_max(options))
        return 0;
    err_set(err, -EBADMSG, "the %s has too many pixels", image_kind_name(image->kind));
    err_at(err, path, 0);
    err_expected(err, "at most %" PRIu64, pixels_max(options));
    err_found(err, "%" PRIu32 " x %" PRIu32 " = %" PRIu64, image->width, image->height, pixels);
    err_advise(err, "raise data.image.max_pixels (`millrace read --max-pixels`), up to %d",
               PIXELS_MAX);
    return -EBADMSG;
}

static int read_headers(struct image_pipeline *pipeline, const void *data, size_t bytes,
                        const char *path, struct image *image, struct err *err)
{
    image->kind = image_kind_of(data, bytes);
    pipeline->kind = image->kind;
    if (image->kind == IMAGE_JPEG) {
        int status = jpeg_decode_begin(pipeline->jpeg, data, bytes, path, &image->jpeg, err);
        if (status)
            return status;
        image->width = image->jpeg.width;
        image->height = image->jpeg.height;
        image->orientation = image->jpeg.orientation;
        return check_pixels(&pipeline->options, image, path, err);
    }
    int status =
        pixels_begin(pipeline->pixels, image->kind, data, bytes, path, &image->pixels, err);
    if (status)
        return status;
    image->width = image->pixels.width;
    image->height = image->pixels.height;
    image->orientation = image->pixels.orientation;
    return check_pixels(&pipeline->options, image, path, err);
}

/* Decodes what the framing needs (everything if decodes_whole_image) and renders it. */
static int render(struct image_pipeline *pipeline, const struct image *image,
                  const struct framing *framing, bool decodes_whole_image, uint8_t *rgb,
                  size_t stride_bytes, struct err *err)
{
    struct renderer *renderer = &pipeline->renderer;
    struct image_rect region;
    if (image->kind == IMAGE_JPEG) {
        struct jpeg_planes planes = jpeg_planes_of(&image->jpeg);
        int status = render_plan_planes(renderer, framing, &planes, &region, err);
        if (!status)
            status = jpeg_decode_part(pipeline->jpeg, decodes_whole_image ? NULL : &region, &planes,
                                      err);
        return status ? status : render_planes(renderer, framing, &planes, rgb, stride_bytes, err);
    }
    struct pixels pixels;
    int status = render_plan_pixels(renderer, framing, &image->pixels, &region, err);
    if (!status)
        status = pixels_decode_region(pipeline->pixels, decodes_whole_image ? NULL : &region,
                                      &pixels, err);
    return status ? status : render_pixels(renderer, framing, &pixels, rgb, stride_bytes, err);
}

static void get_upright_size(const struct image *image, uint32_t *width, uint32_t *height)
{
    bool swap = orientation_swaps_sides(image->orientation);
    *width = swap ? image->height : image->width;
    *height = swap ? image->width : image->height;
}

static struct crop choose_crop(const struct image_options *options, uint32_t width, uint32_t height,
                               struct image_key key)
{
    return crop_choose(&options->crop, width, height, key.seed, key.dataset, key.epoch, key.sample);
}

/* Chooses the crop and the augmentation. */
static struct framing choose_geometry(struct image_pipeline *pipeline, const struct image *image,
                                      struct image_key key)
{
    const struct image_options *options = &pipeline->options;
    struct image_geometry *geometry = &pipeline->geometry;
    get_upright_size(image, &geometry->source_width, &geometry->source_height);
    geometry->width = options->width;
    geometry->height = options->height;
    geometry->crop = choose_crop(options, geometry->source_width, geometry->source_height, key);
    geometry->steps_count =
        augment_choose(&options->augment, options->width, options->height, key.seed, key.dataset,
                       key.epoch, key.sample, geometry->steps);
    pipeline->renderer.is_read_next = options->is_read_next || geometry->steps_count > 0;
    return framing_for_crop(image->orientation, image->width, image->height, geometry->crop,
                            options->width, options->height);
}

/* with_colors: whether to apply also the steps that move no pixels. */
static void augment(const struct image_pipeline *pipeline, bool with_colors, uint8_t *rgb,
                    size_t stride_bytes)
{
    const struct image_geometry *geometry = &pipeline->geometry;
    struct affine affine;
    for (uint32_t i = 0; i < geometry->steps_count; i++)
        if (with_colors ||
            augment_find_affine(geometry->steps[i], geometry->width, geometry->height, &affine))
            augment_apply(geometry->steps[i], rgb, geometry->width, geometry->height, stride_bytes,
                          pipeline->augment_scratch);
}

int image_pipeline_run(struct image_pipeline *pipeline, const void *data, size_t bytes,
                       const char *path, struct image_key key, uint8_t *rgb, size_t stride_bytes,
                       struct err *err)
{
    struct image image;
    assert(stride_bytes >= 3 * (size_t)pipeline->options.width);
    int status = read_headers(pipeline, data, bytes, path, &image, err);
    if (status)
        return status;
    struct framing framing = choose_geometry(pipeline, &image, key);
    status = render(pipeline, &image, &framing, false, rgb, stride_bytes, err);
    if (!status)
        augment(pipeline, true, rgb, stride_bytes);
    return status;
}

/* ---- Pictures that belong to an image. ---- */

static int wrong_size(const struct image_geometry *geometry, const struct image *image,
                      uint32_t width, uint32_t height, const char *path, struct err *err)
{
    err_set(err, -EBADMSG, "the %s has another size than the image that it follows",
            image_kind_name(image->kind));
    err_at(err, path, 0);
    err_expected(err, "%" PRIu32 " x %" PRIu32 " pixels, as the upright image",
                 geometry->source_width, geometry->source_height);
    err_found(err, "%" PRIu32 " x %" PRIu32, width, height);
    return -EBADMSG;
}

int image_pipeline_run_follower(struct image_pipeline *pipeline, const void *data, size_t bytes,
                                const char *path, uint8_t *rgb, size_t stride_bytes,
                                struct err *err)
{
    const struct image_geometry *geometry = &pipeline->geometry;
    struct image image;
    uint32_t width, height;
    int status = read_headers(pipeline, data, bytes, path, &image, err);
    if (status)
        return status;
    get_upright_size(&image, &width, &height);
    if (width != geometry->source_width || height != geometry->source_height)
        return wrong_size(geometry, &image, width, height, path, err);
    struct framing framing = framing_for_crop(image.orientation, image.width, image.height,
                                              geometry->crop, geometry->width, geometry->height);
    status = render(pipeline, &image, &framing, false, rgb, stride_bytes, err);
    if (!status)
        augment(pipeline, false, rgb, stride_bytes);
    return status;
}

/* ---- Rows of uncompressed pictures. ---- */

static struct image rows_image(const struct image_rows *rows)
{
    return (struct image){
        .kind = IMAGE_PPM, .width = rows->width, .height = rows->height, .orientation = 1};
}

bool image_find_rows(const struct image_options *options, struct image_key key,
                     struct image_rows *rows)
{
    uint32_t end;
    if (pixels_check_size("PPM", NULL, rows->width, rows->height, NULL) ||
        (uint64_t)rows->width * rows->height > pixels_max(options))
        return false; /* the whole picture's headers would be rejected */
    struct crop crop = choose_crop(options, rows->width, rows->height, key);
    struct resample_span span = {crop.rect.y, crop.rect.height, 1};
    resample_find_source(span, rows->height, options->height, &rows->first, &end);
    rows->count = end - rows->first;
    return true;
}

int image_pipeline_run_rows(struct image_pipeline *pipeline, const struct image_rows *rows,
                            const void *data, struct image_key key, uint8_t *rgb,
                            size_t stride_bytes, struct err *err)
{
    struct image image = rows_image(rows);
    struct framing framing = choose_geometry(pipeline, &image, key);
    struct pixels_info info = {
        .width = rows->width, .height = rows->height, .channels = 3, .orientation = 1};
    struct pixels pixels = {.data = data,
                            .stride_bytes = 3 * (size_t)rows->width,
                            .region = {0, rows->first, rows->width, rows->count},
                            .channels = 3};
    struct image_rect region;
    pipeline->kind = IMAGE_PPM;
    int status = render_plan_pixels(&pipeline->renderer, &framing, &info, &region, err);
    if (status)
        return status;
    assert(region.y == rows->first && region.height == rows->count);
    status = render_pixels(&pipeline->renderer, &framing, &pixels, rgb, stride_bytes, err);
    if (!status)
        augment(pipeline, true, rgb, stride_bytes);
    return status;
}

/* ---- Whole images. ---- */

static uint32_t scale_side(uint32_t side, uint32_t from, uint32_t to)
{
    uint64_t scaled = ((uint64_t)side * to + from / 2) / from;
    return scaled < 1 ? 1 : (uint32_t)scaled;
}

static void limit_size(struct image_bounds bounds, uint32_t *width, uint32_t *height)
{
    uint32_t from_width = *width, from_height = *height;
    uint32_t longer_side = from_width > from_height ? from_width : from_height;
    if (bounds.side_max == 0 || longer_side <= bounds.side_max)
        return;
    *width = scale_side(from_width, longer_side, bounds.side_max);
    *height = scale_side(from_height, longer_side, bounds.side_max);
    uint32_t tiled = jpeg_tile_width(*width);
    if (bounds.tile_aligned && tiled < *width) {
        *width = tiled;
        *height = scale_side(from_height, from_width, tiled);
    }
}

int image_pipeline_decode_whole(struct image_pipeline *pipeline, const void *data, size_t bytes,
                                const char *path, struct image_bounds bounds,
                                const uint8_t **ret_rgb, uint32_t *ret_width, uint32_t *ret_height,
                                struct err *err)
{
    struct image image;
    uint32_t width, height;
    int status = read_headers(pipeline, data, bytes, path, &image, err);
    if (status)
        return status;
    get_upright_size(&image, &width, &height);
    struct crop crop = {.rect = {0, 0, width, height}};
    pipeline->renderer.is_read_next = true;
    limit_size(bounds, &width, &height);
    struct framing framing =
        framing_for_crop(image.orientation, image.width, image.height, crop, width, height);
    status = pixels_reserve(&pipeline->whole_image, 3 * (size_t)width * height, err);
    if (!status)
        status = render(pipeline, &image, &framing, true, pipeline->whole_image.data,
                        3 * (size_t)width, err);
    if (status)
        return status;
    *ret_rgb = pipeline->whole_image.data;
    *ret_width = width;
    *ret_height = height;
    return 0;
}

/* ---- Life cycle. ---- */

static int check_options(const struct image_options *options, struct err *err)
{
    if (options->width < 1 || options->width > RESAMPLE_TARGET_MAX || options->height < 1 ||
        options->height > RESAMPLE_TARGET_MAX) {
        err_set(err, -EINVAL, "the size of output images is invalid");
        err_expected(err, "1 to %d pixels per side", RESAMPLE_TARGET_MAX);
        err_found(err, "%u x %u", options->width, options->height);
        return -EINVAL;
    }
    int status = crop_options_check(&options->crop, err);
    return status ? status : augment_options_check(&options->augment, err);
}

int image_pipeline_open(const struct image_options *options, struct image_pipeline **ret_pipeline,
                        struct err *err)
{
    int status = check_options(options, err);
    if (status)
        return status;
    struct image_pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (!pipeline)
        return err_set(err, -ENOMEM, "out of memory for an image pipeline");
    pipeline->options = *options;
    pipeline->renderer.kernels = image_kernels_best();
    pipeline->augment_scratch = malloc(3 * (size_t)options->width * options->height);
    status = pipeline->augment_scratch
                 ? jpeg_decoder_open(&pipeline->jpeg, err)
                 : err_set(err, -ENOMEM, "out of memory for an image pipeline");
    if (!status)
        jpeg_decoder_set_pixels_max(pipeline->jpeg, pixels_max(options));
    if (!status && options->libjpeg_only)
        jpeg_decoder_use_libjpeg(pipeline->jpeg);
    if (!status)
        status = pixels_decoder_open(&pipeline->pixels, err);
    if (status)
        image_pipeline_close(pipeline);
    else
        *ret_pipeline = pipeline;
    return status;
}

const struct image_geometry *image_pipeline_geometry(const struct image_pipeline *pipeline)
{
    return &pipeline->geometry;
}

uint32_t image_pipeline_warnings(const struct image_pipeline *pipeline)
{
    return pipeline->kind == IMAGE_JPEG ? jpeg_decoder_warnings(pipeline->jpeg) : 0;
}

void image_pipeline_close(struct image_pipeline *pipeline)
{
    if (!pipeline)
        return;
    renderer_deinit(&pipeline->renderer);
    free(pipeline->whole_image.data);
    free(pipeline->augment_scratch);
    jpeg_decoder_close(pipeline->jpeg);
    pixels_decoder_close(pipeline->pixels);
    free(pipeline);
}

void image_library_versions(char text[IMAGE_LIBRARIES_BYTES])
{
    uint32_t webp = webp_version();
    snprintf(text, IMAGE_LIBRARIES_BYTES, "%s, libwebp %u.%u.%u", jpeg_library(), webp >> 16,
             webp >> 8 & 0xff, webp & 0xff);
}
