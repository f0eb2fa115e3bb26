/*
 * pipeline — see pipeline.h.
 *
 * A framing says which rectangle of the stored image becomes a target of which size, and how it is turned. Each plane is
 * resampled in its stored frame, rows first; a mirrored axis is a plan that counts its outputs backwards, and where the
 * orientation swaps the sides the second pass writes straight instead of transposed. So the result is, bit for bit, what
 * turning the upright result would give.
 */
#include "image/pipeline.h"

#include "base/bytes.h"
#include "image/color.h"
#include "image/jpeg.h"
#include "image/jpeg_tile.h"
#include "image/resample.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLANES_MAX = 3,
    STRIDE_ALIGNMENT_BYTES = 64,
};

static_assert((int)JPEG_SIDE_MAX <= (int)RESAMPLE_LINE_MAX, "every line of an image can be resampled");

/* Grows and is kept. Owner thread. */
struct scratch {
    uint8_t *data;
    size_t bytes;
};

struct image_pipeline {
    struct image_options options;
    enum image_kernels kernels;
    struct jpeg_decoder *decoder;
    /* The stored rows, the stored columns of each plane. */
    struct resample_plan down[PLANES_MAX], across[PLANES_MAX];
    struct scratch turned; /* a plane between its passes: its columns as rows */
    struct scratch target; /* planes at the target's size, one after the other */
    struct scratch whole;  /* what image_pipeline_whole lends */
};

struct framing {
    struct image_rect stored;        /* of the stored image */
    bool swap_sides, flip_x, flip_y; /* flips of the stored axes, before the sides are swapped */
    uint32_t width, height;          /* of the target, as seen */
};

static int scratch_reserve(struct scratch *scratch, size_t bytes, struct err *err)
{
    if (bytes <= scratch->bytes)
        return 0;
    free(scratch->data);
    scratch->data = malloc(bytes);
    scratch->bytes = scratch->data ? bytes : 0;
    return scratch->data ? 0 : err_set(err, -ENOMEM, "no memory for an image's %zu bytes", bytes);
}

/* ---- Where the pixels come from. ---- */

static struct framing framing_of(const struct jpeg_info *info, struct crop crop, uint32_t width,
                                 uint32_t height)
{
    uint32_t turn = info->orientation;
    struct framing framing = {
        .stored = orientation_to_stored(turn, crop.rect, info->width, info->height),
        .swap_sides = orientation_swaps_sides(turn),
        .flip_x = orientation_from_right(turn),
        .flip_y = orientation_from_bottom(turn),
        .width = width,
        .height = height,
    };
    if (framing.swap_sides)
        framing.flip_y ^= crop.flip;
    else
        framing.flip_x ^= crop.flip;
    return framing;
}

static int plan_plane(struct image_pipeline *pipeline, uint32_t index, const struct framing *framing,
                      const struct jpeg_plane *plane, struct err *err)
{
    struct resample_span columns = {(int64_t)framing->stored.x * plane->x_num,
                                    (int64_t)framing->stored.width * plane->x_num, plane->x_den};
    struct resample_span rows = {(int64_t)framing->stored.y * plane->y_num,
                                 (int64_t)framing->stored.height * plane->y_num, plane->y_den};
    int status =
        resample_plan_init(&pipeline->across[index], columns, plane->width,
                           framing->swap_sides ? framing->height : framing->width, framing->flip_x, err);
    if (status)
        return status;
    return resample_plan_init(&pipeline->down[index], rows, plane->height,
                              framing->swap_sides ? framing->width : framing->height, framing->flip_y, err);
}

static bool same_shape(const struct jpeg_plane *a, const struct jpeg_plane *b)
{
    return a->width == b->width && a->height == b->height && a->x_num == b->x_num && a->x_den == b->x_den &&
           a->y_num == b->y_num && a->y_den == b->y_den;
}

/* Which plans serve a plane: those of the first plane of its shape. */
static uint32_t plans_of(const struct jpeg_planes *planes, uint32_t index)
{
    uint32_t first = 0;
    while (!same_shape(&planes->plane[first], &planes->plane[index]))
        first++;
    return first;
}

/* Widens begin..end, in pixels, by those of which a plan needs samples: den pixels have num of them. */
static void add_pixels(uint64_t *begin, uint64_t *end, const struct resample_plan *plan, uint32_t num,
                       uint32_t den)
{
    uint64_t first = (uint64_t)plan->source_first * den / num;
    uint64_t last = ((uint64_t)plan->source_end * den + num - 1) / num;
    *begin = bytes_min(*begin, first);
    *end = last > *end ? last : *end;
}

/* Plans all planes and gives the part of the image that they need. */
static int plan_planes(struct image_pipeline *pipeline, const struct framing *framing,
                       const struct jpeg_planes *planes, struct image_rect *ret_part, struct err *err)
{
    uint64_t left = planes->width, right = 0, top = planes->height, bottom = 0;
    for (uint32_t i = 0; i < planes->count; i++) {
        const struct jpeg_plane *plane = &planes->plane[i];
        if (plans_of(planes, i) != i)
            continue;
        int status = plan_plane(pipeline, i, framing, plane, err);
        if (status)
            return status;
        add_pixels(&left, &right, &pipeline->across[i], plane->x_num, plane->x_den);
        add_pixels(&top, &bottom, &pipeline->down[i], plane->y_num, plane->y_den);
    }
    *ret_part = (struct image_rect){
        .x = (uint32_t)left,
        .y = (uint32_t)top,
        .width = (uint32_t)(bytes_min(right, planes->width) - left),
        .height = (uint32_t)(bytes_min(bottom, planes->height) - top),
    };
    return 0;
}

/* ---- From planes to the target. ---- */

static size_t target_stride(const struct framing *framing)
{
    return bytes_round_up(framing->width, STRIDE_ALIGNMENT_BYTES);
}

static int resample_plane(struct image_pipeline *pipeline, uint32_t plans, const struct framing *framing,
                          const struct jpeg_plane *plane, uint8_t *target, struct err *err)
{
    const struct resample_plan *down = &pipeline->down[plans], *across = &pipeline->across[plans];
    size_t turned_stride = bytes_round_up(down->count, STRIDE_ALIGNMENT_BYTES);
    struct resample_rows stored = {
        .data = plane->data + (down->source_first - plane->top) * plane->stride_bytes +
                (across->source_first - plane->left),
        .stride_bytes = plane->stride_bytes,
        .first = down->source_first,
        .columns = across->source_end - across->source_first,
    };
    int status = scratch_reserve(&pipeline->turned, turned_stride * stored.columns, err);
    if (status)
        return status;
    struct resample_rows turned = {
        .data = pipeline->turned.data,
        .stride_bytes = turned_stride,
        .first = across->source_first,
        .columns = down->count,
    };
    resample_columns(pipeline->kernels, down, &stored, true, pipeline->turned.data, turned_stride);
    resample_columns(pipeline->kernels, across, &turned, !framing->swap_sides, target,
                     target_stride(framing));
    return 0;
}

static void convert_rows(enum image_kernels kernels, const struct framing *framing,
                         const struct jpeg_planes *planes, const uint8_t *target, uint8_t *rgb,
                         size_t stride_bytes)
{
    size_t row_bytes = target_stride(framing), plane_bytes = row_bytes * framing->height;
    for (uint32_t y = 0; y < framing->height; y++, target += row_bytes, rgb += stride_bytes) {
        const uint8_t *second = target + plane_bytes, *third = second + plane_bytes;
        if (planes->color == JPEG_GRAY)
            color_gray_to_rgb(kernels, target, rgb, framing->width);
        else if (planes->color == JPEG_RGB)
            color_planes_to_rgb(kernels, target, second, third, rgb, framing->width);
        else
            color_ycbcr_to_rgb(kernels, target, second, third, rgb, framing->width);
    }
}

/* Decodes what the framing needs and renders it; the decoder has begun. */
static int render(struct image_pipeline *pipeline, const struct jpeg_info *info,
                  const struct framing *framing, bool to_end, uint8_t *rgb, size_t stride_bytes,
                  struct err *err)
{
    struct jpeg_planes planes = jpeg_planes_of(info);
    struct image_rect part;
    size_t plane_bytes = target_stride(framing) * framing->height;
    int status = plan_planes(pipeline, framing, &planes, &part, err);
    if (!status)
        status = scratch_reserve(&pipeline->target, plane_bytes * planes.count, err);
    if (!status)
        status = jpeg_decode_part(pipeline->decoder, to_end ? NULL : &part, &planes, err);
    for (uint32_t i = 0; !status && i < planes.count; i++)
        status = resample_plane(pipeline, plans_of(&planes, i), framing, &planes.plane[i],
                                pipeline->target.data + i * plane_bytes, err);
    if (!status)
        convert_rows(pipeline->kernels, framing, &planes, pipeline->target.data, rgb, stride_bytes);
    return status;
}

static void seen_sides(const struct jpeg_info *info, uint32_t *width, uint32_t *height)
{
    bool swap = orientation_swaps_sides(info->orientation);
    *width = swap ? info->height : info->width;
    *height = swap ? info->width : info->height;
}

int image_pipeline_run(struct image_pipeline *pipeline, const void *data, size_t bytes, const char *path,
                       struct image_key key, uint8_t *rgb, size_t stride_bytes, struct err *err)
{
    const struct image_options *options = &pipeline->options;
    struct jpeg_info info;
    uint32_t width, height;
    assert(stride_bytes >= 3 * (size_t)options->width);
    int status = jpeg_decode_begin(pipeline->decoder, data, bytes, path, &info, err);
    if (status)
        return status;
    seen_sides(&info, &width, &height);
    struct crop crop =
        crop_choose(&options->crop, width, height, key.seed, key.dataset, key.epoch, key.sample);
    struct framing framing = framing_of(&info, crop, options->width, options->height);
    return render(pipeline, &info, &framing, false, rgb, stride_bytes, err);
}

/* ---- Whole images. ---- */

static uint32_t scale_side(uint32_t side, uint32_t from, uint32_t to)
{
    uint64_t scaled = ((uint64_t)side * to + from / 2) / from;
    return scaled < 1 ? 1 : (uint32_t)scaled;
}

static void bound_sides(struct image_bounds bounds, uint32_t *width, uint32_t *height)
{
    uint32_t from_width = *width, from_height = *height;
    uint32_t longer = from_width > from_height ? from_width : from_height;
    if (bounds.side_max == 0 || longer <= bounds.side_max)
        return;
    *width = scale_side(from_width, longer, bounds.side_max);
    *height = scale_side(from_height, longer, bounds.side_max);
    uint32_t tiled = jpeg_tile_width(*width);
    if (bounds.tiles && tiled < *width) {
        *width = tiled;
        *height = scale_side(from_height, from_width, tiled);
    }
}

int image_pipeline_whole(struct image_pipeline *pipeline, const void *data, size_t bytes, const char *path,
                         struct image_bounds bounds, const uint8_t **ret_rgb, uint32_t *ret_width,
                         uint32_t *ret_height, struct err *err)
{
    struct jpeg_info info;
    uint32_t width, height;
    int status = jpeg_decode_begin(pipeline->decoder, data, bytes, path, &info, err);
    if (status)
        return status;
    seen_sides(&info, &width, &height);
    struct crop crop = {.rect = {0, 0, width, height}};
    bound_sides(bounds, &width, &height);
    struct framing framing = framing_of(&info, crop, width, height);
    status = scratch_reserve(&pipeline->whole, 3 * (size_t)width * height, err);
    if (!status)
        status = render(pipeline, &info, &framing, true, pipeline->whole.data, 3 * (size_t)width, err);
    if (status)
        return status;
    *ret_rgb = pipeline->whole.data;
    *ret_width = width;
    *ret_height = height;
    return 0;
}

/* ---- Life cycle. ---- */

static int check_options(const struct image_options *options, struct err *err)
{
    if (options->width < 1 || options->width > RESAMPLE_TARGET_MAX || options->height < 1 ||
        options->height > RESAMPLE_TARGET_MAX) {
        err_set(err, -EINVAL, "size of target images is invalid");
        err_expected(err, "1 to %d pixels a side", RESAMPLE_TARGET_MAX);
        err_found(err, "%u x %u", options->width, options->height);
        return -EINVAL;
    }
    return crop_options_check(&options->crop, err);
}

int image_pipeline_open(const struct image_options *options, struct image_pipeline **ret_pipeline,
                        struct err *err)
{
    int status = check_options(options, err);
    if (status)
        return status;
    struct image_pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (!pipeline)
        return err_set(err, -ENOMEM, "no memory for an image pipeline");
    pipeline->options = *options;
    pipeline->kernels = image_kernels_best();
    status = jpeg_decoder_open(&pipeline->decoder, err);
    if (status) {
        image_pipeline_close(pipeline);
        return status;
    }
    *ret_pipeline = pipeline;
    return 0;
}

uint32_t image_pipeline_warnings(const struct image_pipeline *pipeline)
{
    return jpeg_decoder_warnings(pipeline->decoder);
}

void image_pipeline_close(struct image_pipeline *pipeline)
{
    if (!pipeline)
        return;
    for (uint32_t i = 0; i < PLANES_MAX; i++) {
        resample_plan_deinit(&pipeline->down[i]);
        resample_plan_deinit(&pipeline->across[i]);
    }
    free(pipeline->turned.data);
    free(pipeline->target.data);
    free(pipeline->whole.data);
    jpeg_decoder_close(pipeline->decoder);
    free(pipeline);
}
