/*
 * render — see render.h.
 */
#include "image/pipeline/render.h"

#include "base/bytes.h"
#include "image/kernels/color.h"
#include "image/kernels/stream_copy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    STRIDE_ALIGNMENT_BYTES = 64,
    BLOCK_BYTES = 16384, /* of finished rows, in the first-level cache */
};

static_assert((int)PIXELS_SIDE_MAX <= (int)RESAMPLE_LINE_MAX,
              "every line of an image can be resampled");

/* ---- Which pixels are needed. ---- */

struct framing framing_for_crop(uint32_t orientation, uint32_t stored_width, uint32_t stored_height,
                                struct crop crop, uint32_t width, uint32_t height)
{
    struct framing framing = {
        .stored = orientation_to_stored(orientation, crop.rect, stored_width, stored_height),
        .swap_sides = orientation_swaps_sides(orientation),
        .flip_x = orientation_flips_x(orientation),
        .flip_y = orientation_flips_y(orientation),
        .width = width,
        .height = height,
    };
    if (framing.swap_sides)
        framing.flip_y ^= crop.flip;
    else
        framing.flip_x ^= crop.flip;
    return framing;
}

static int plan_plane(struct renderer *renderer, uint32_t index, const struct framing *framing,
                      const struct jpeg_plane *plane, uint32_t channels, struct err *err)
{
    struct resample_span columns = {(int64_t)framing->stored.x * plane->x_num,
                                    (int64_t)framing->stored.width * plane->x_num, plane->x_den};
    struct resample_span rows = {(int64_t)framing->stored.y * plane->y_num,
                                 (int64_t)framing->stored.height * plane->y_num, plane->y_den};
    int status = resample_plan_init(&renderer->column_plans[index], columns, plane->width,
                                    framing->swap_sides ? framing->height : framing->width,
                                    framing->flip_x, err);
    if (!status)
        status = resample_plan_init(&renderer->row_plans[index], rows, plane->height,
                                    framing->swap_sides ? framing->width : framing->height,
                                    framing->flip_y, err);
    if (!status && !framing->swap_sides)
        status = enlarge_plan_init(&renderer->enlarge_plans[index], renderer->kernels,
                                   &renderer->column_plans[index], channels, err);
    return status;
}

static bool has_same_shape(const struct jpeg_plane *a, const struct jpeg_plane *b)
{
    return a->width == b->width && a->height == b->height && a->x_num == b->x_num &&
           a->x_den == b->x_den && a->y_num == b->y_num && a->y_den == b->y_den;
}

/* Returns the first plane of the same shape; planes of one shape share its plans. */
static uint32_t plans_index(const struct jpeg_planes *planes, uint32_t index)
{
    uint32_t first = 0;
    while (!has_same_shape(&planes->plane[first], &planes->plane[index]))
        first++;
    return first;
}

/* Extends begin..end, in pixels, to all pixels whose samples a plan needs; den pixels have num
 * samples. */
static void extend_range(uint64_t *begin, uint64_t *end, const struct resample_plan *plan,
                         uint32_t num, uint32_t den)
{
    uint64_t first = (uint64_t)plan->source_first * den / num;
    uint64_t last = ((uint64_t)plan->source_end * den + num - 1) / num;
    *begin = bytes_min(*begin, first);
    *end = last > *end ? last : *end;
}

static int plan_planes(struct renderer *renderer, const struct framing *framing,
                       const struct jpeg_planes *planes, uint32_t channels,
                       struct image_rect *ret_region, struct err *err)
{
    uint64_t left = planes->width, right = 0, top = planes->height, bottom = 0;
    for (uint32_t i = 0; i < planes->count; i++) {
        const struct jpeg_plane *plane = &planes->plane[i];
        if (plans_index(planes, i) != i)
            continue;
        int status = plan_plane(renderer, i, framing, plane, channels, err);
        if (status)
            return status;
        extend_range(&left, &right, &renderer->column_plans[i], plane->x_num, plane->x_den);
        extend_range(&top, &bottom, &renderer->row_plans[i], plane->y_num, plane->y_den);
    }
    *ret_region = (struct image_rect){
        .x = (uint32_t)left,
        .y = (uint32_t)top,
        .width = (uint32_t)(bytes_min(right, planes->width) - left),
        .height = (uint32_t)(bytes_min(bottom, planes->height) - top),
    };
    return 0;
}

int render_plan_planes(struct renderer *renderer, const struct framing *framing,
                       const struct jpeg_planes *planes, struct image_rect *ret_region,
                       struct err *err)
{
    return plan_planes(renderer, framing, planes, 1, ret_region, err);
}

int render_plan_pixels(struct renderer *renderer, const struct framing *framing,
                       const struct pixels_info *info, struct image_rect *ret_region,
                       struct err *err)
{
    struct jpeg_planes whole = {.width = info->width, .height = info->height, .count = 1};
    whole.plane[0] = (struct jpeg_plane){.width = info->width,
                                         .height = info->height,
                                         .x_num = 1,
                                         .x_den = 1,
                                         .y_num = 1,
                                         .y_den = 1};
    return plan_planes(renderer, framing, &whole, info->channels, ret_region, err);
}

/* ---- From samples to planes of the target's size. ---- */

static bool is_enlargement(const struct renderer *renderer, uint32_t plans,
                           const struct framing *framing)
{
    return renderer->enlarge_plans[plans].fits && !framing->swap_sides;
}

/* A plane, or several interleaved ones. */
struct samples {
    const uint8_t *data; /* sample at column left, row top of the plane */
    size_t stride_bytes;
    uint32_t left, top;
    uint32_t channels;
};

static size_t target_plane_bytes(const struct framing *framing)
{
    return (size_t)framing->width * framing->height;
}

/* The first pass, into renderer->between. *ret_stride_bytes: between its rows. */
static int resample_rows(struct renderer *renderer, uint32_t plans, const struct samples *samples,
                         bool transposed, size_t *ret_stride_bytes, struct err *err)
{
    const struct resample_plan *row_plan = &renderer->row_plans[plans],
                               *column_plan = &renderer->column_plans[plans];
    struct resample_rows stored = {
        .data = samples->data + (row_plan->source_first - samples->top) * samples->stride_bytes +
                samples->channels * (column_plan->source_first - samples->left),
        .stride_bytes = samples->stride_bytes,
        .first = row_plan->source_first,
        .columns = samples->channels * (column_plan->source_end - column_plan->source_first),
    };
    size_t rows = transposed ? stored.columns : row_plan->count;
    *ret_stride_bytes =
        bytes_round_up(transposed ? row_plan->count : stored.columns, STRIDE_ALIGNMENT_BYTES);
    int status =
        pixels_reserve(&renderer->between, rows * *ret_stride_bytes + ENLARGE_SLACK_BYTES, err);
    if (!status)
        resample_columns(renderer->kernels, row_plan, &stored, transposed, renderer->between.data,
                         *ret_stride_bytes);
    return status;
}

/* Both passes, into consecutive target planes, one per channel. */
static int resample_transposed(struct renderer *renderer, uint32_t plans,
                               const struct framing *framing, const struct samples *samples,
                               uint8_t *target, struct err *err)
{
    size_t stride_bytes, channels = samples->channels;
    const struct resample_plan *column_plan = &renderer->column_plans[plans];
    int status = resample_rows(renderer, plans, samples, true, &stride_bytes, err);
    for (size_t channel = 0; !status && channel < channels; channel++) {
        struct resample_rows transposed_plane = {
            .data = renderer->between.data + channel * stride_bytes,
            .stride_bytes = channels * stride_bytes,
            .first = column_plan->source_first,
            .columns = renderer->row_plans[plans].count,
        };
        resample_columns(renderer->kernels, column_plan, &transposed_plane, !framing->swap_sides,
                         target + channel * target_plane_bytes(framing), framing->width);
    }
    return status;
}

static int resample_plane(struct renderer *renderer, uint32_t plans, const struct framing *framing,
                          const struct samples *samples, uint8_t *target, struct err *err)
{
    if (!is_enlargement(renderer, plans, framing))
        return resample_transposed(renderer, plans, framing, samples, target, err);
    size_t stride_bytes;
    int status = resample_rows(renderer, plans, samples, false, &stride_bytes, err);
    for (uint32_t y = 0; !status && y < framing->height; y++)
        enlarge_row(&renderer->enlarge_plans[plans], renderer->between.data + y * stride_bytes,
                    target + (size_t)y * framing->width);
    return status;
}

/* ---- From planes, or rows of the first pass, to RGB. ---- */

/* Rows of the target before the last step. */
struct unfinished {
    const uint8_t *planes;              /* consecutive planes of the target's size, or NULL */
    enum jpeg_color color;              /* of planes */
    const uint8_t *rows;                /* of the first pass, interleaved */
    size_t stride_bytes;                /* of rows */
    const struct enlarge_plan *enlarge; /* for rows */
};

static void finish_rows(enum image_kernels kernels, const struct framing *framing,
                        const struct unfinished *unfinished, uint32_t row, uint32_t count,
                        uint8_t *rgb)
{
    size_t width = framing->width, pixels = count * width;
    if (!unfinished->planes) {
        for (uint32_t y = 0; y < count; y++)
            enlarge_row(unfinished->enlarge,
                        unfinished->rows + (row + y) * unfinished->stride_bytes,
                        rgb + 3 * y * width);
        return;
    }
    const uint8_t *first = unfinished->planes + row * width,
                  *second = first + target_plane_bytes(framing),
                  *third = second + target_plane_bytes(framing);
    if (unfinished->color == JPEG_GRAY)
        color_gray_to_rgb(kernels, first, rgb, pixels);
    else if (unfinished->color == JPEG_RGB)
        color_planes_to_rgb(kernels, first, second, third, rgb, pixels);
    else
        color_ycbcr_to_rgb(kernels, first, second, third, rgb, pixels);
}

static void write_rows(const struct renderer *renderer, const uint8_t *rows, uint32_t count,
                       size_t row_bytes, uint8_t *rgb, size_t stride_bytes)
{
    if (stride_bytes == row_bytes) {
        row_bytes *= count;
        count = 1;
    }
    for (uint32_t y = 0; y < count; y++, rows += row_bytes, rgb += stride_bytes) {
        if (renderer->is_read_next)
            memcpy(rgb, rows, row_bytes);
        else
            stream_copy(renderer->kernels, rgb, rows, row_bytes);
    }
}

static int finish(struct renderer *renderer, const struct framing *framing,
                  const struct unfinished *unfinished, uint8_t *rgb, size_t stride_bytes,
                  struct err *err)
{
    size_t row_bytes = 3 * (size_t)framing->width;
    uint32_t rows = row_bytes < BLOCK_BYTES ? (uint32_t)(BLOCK_BYTES / row_bytes) : 1;
    int status = pixels_reserve(&renderer->block, rows * row_bytes, err);
    for (uint32_t y = 0; !status && y < framing->height; y += rows) {
        uint32_t count = (uint32_t)bytes_min(rows, framing->height - y);
        finish_rows(renderer->kernels, framing, unfinished, y, count, renderer->block.data);
        write_rows(renderer, renderer->block.data, count, row_bytes, rgb + y * stride_bytes,
                   stride_bytes);
    }
    return status;
}

/* ---- Entry points. ---- */

int render_planes(struct renderer *renderer, const struct framing *framing,
                  const struct jpeg_planes *planes, uint8_t *rgb, size_t stride_bytes,
                  struct err *err)
{
    size_t plane_bytes = target_plane_bytes(framing);
    int status = pixels_reserve(&renderer->target, plane_bytes * planes->count, err);
    for (uint32_t i = 0; !status && i < planes->count; i++) {
        const struct jpeg_plane *plane = &planes->plane[i];
        struct samples samples = {plane->data, plane->stride_bytes, plane->left, plane->top, 1};
        status = resample_plane(renderer, plans_index(planes, i), framing, &samples,
                                renderer->target.data + i * plane_bytes, err);
    }
    struct unfinished unfinished = {.planes = renderer->target.data, .color = planes->color};
    return status ? status : finish(renderer, framing, &unfinished, rgb, stride_bytes, err);
}

int render_pixels(struct renderer *renderer, const struct framing *framing,
                  const struct pixels *pixels, uint8_t *rgb, size_t stride_bytes, struct err *err)
{
    struct samples samples = {pixels->data, pixels->stride_bytes, pixels->region.x,
                              pixels->region.y, pixels->channels};
    struct unfinished unfinished = {.enlarge = &renderer->enlarge_plans[0]};
    int status;
    if (pixels->channels == 3 && is_enlargement(renderer, 0, framing)) {
        status = resample_rows(renderer, 0, &samples, false, &unfinished.stride_bytes, err);
        unfinished.rows = renderer->between.data;
    } else {
        status =
            pixels_reserve(&renderer->target, target_plane_bytes(framing) * pixels->channels, err);
        if (!status)
            status = resample_plane(renderer, 0, framing, &samples, renderer->target.data, err);
        unfinished.planes = renderer->target.data;
        unfinished.color = pixels->channels == 1 ? JPEG_GRAY : JPEG_RGB;
    }
    return status ? status : finish(renderer, framing, &unfinished, rgb, stride_bytes, err);
}

void renderer_deinit(struct renderer *renderer)
{
    for (uint32_t i = 0; i < RENDER_PLANES_MAX; i++) {
        resample_plan_deinit(&renderer->row_plans[i]);
        resample_plan_deinit(&renderer->column_plans[i]);
        enlarge_plan_deinit(&renderer->enlarge_plans[i]);
    }
    free(renderer->between.data);
    free(renderer->target.data);
    free(renderer->block.data);
    *renderer = (struct renderer){0};
}
