/*
 * render — see render.h.
 */
#include "image/pipeline/render.h"

#include "base/bytes.h"
#include "image/kernels/color.h"

#include <assert.h>
#include <stdlib.h>

enum { STRIDE_ALIGNMENT_BYTES = 64 };

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
                      const struct jpeg_plane *plane, struct err *err)
{
    struct resample_span columns = {(int64_t)framing->stored.x * plane->x_num,
                                    (int64_t)framing->stored.width * plane->x_num, plane->x_den};
    struct resample_span rows = {(int64_t)framing->stored.y * plane->y_num,
                                 (int64_t)framing->stored.height * plane->y_num, plane->y_den};
    int status = resample_plan_init(&renderer->column_plans[index], columns, plane->width,
                                    framing->swap_sides ? framing->height : framing->width,
                                    framing->flip_x, err);
    if (status)
        return status;
    return resample_plan_init(&renderer->row_plans[index], rows, plane->height,
                              framing->swap_sides ? framing->width : framing->height,
                              framing->flip_y, err);
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

int render_plan_planes(struct renderer *renderer, const struct framing *framing,
                       const struct jpeg_planes *planes, struct image_rect *ret_region,
                       struct err *err)
{
    uint64_t left = planes->width, right = 0, top = planes->height, bottom = 0;
    for (uint32_t i = 0; i < planes->count; i++) {
        const struct jpeg_plane *plane = &planes->plane[i];
        if (plans_index(planes, i) != i)
            continue;
        int status = plan_plane(renderer, i, framing, plane, err);
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
    return render_plan_planes(renderer, framing, &whole, ret_region, err);
}

/* ---- From samples to the target. ---- */

static size_t target_stride(const struct framing *framing)
{
    return bytes_round_up(framing->width, STRIDE_ALIGNMENT_BYTES);
}

/* A plane, or several interleaved ones. */
struct samples {
    const uint8_t *data; /* sample at column left, row top of the plane */
    size_t stride_bytes;
    uint32_t left, top;
    uint32_t channels;
};

/* Resamples into consecutive target planes, one per channel. */
static int resample_samples(struct renderer *renderer, uint32_t plans,
                            const struct framing *framing, const struct samples *samples,
                            uint8_t *target, struct err *err)
{
    const struct resample_plan *row_plan = &renderer->row_plans[plans],
                               *column_plan = &renderer->column_plans[plans];
    size_t transposed_stride = bytes_round_up(row_plan->count, STRIDE_ALIGNMENT_BYTES),
           channels = samples->channels;
    size_t plane_bytes = target_stride(framing) * framing->height;
    struct resample_rows stored = {
        .data = samples->data + (row_plan->source_first - samples->top) * samples->stride_bytes +
                channels * (column_plan->source_first - samples->left),
        .stride_bytes = samples->stride_bytes,
        .first = row_plan->source_first,
        .columns = samples->channels * (column_plan->source_end - column_plan->source_first),
    };
    int status =
        pixels_reserve(&renderer->transposed_plane, transposed_stride * stored.columns, err);
    if (status)
        return status;
    resample_columns(renderer->kernels, row_plan, &stored, true, renderer->transposed_plane.data,
                     transposed_stride);
    for (size_t channel = 0; channel < channels; channel++) {
        struct resample_rows transposed_plane = {
            .data = renderer->transposed_plane.data + channel * transposed_stride,
            .stride_bytes = channels * transposed_stride,
            .first = column_plan->source_first,
            .columns = row_plan->count,
        };
        resample_columns(renderer->kernels, column_plan, &transposed_plane, !framing->swap_sides,
                         target + channel * plane_bytes, target_stride(framing));
    }
    return 0;
}

static void convert_rows(enum image_kernels kernels, const struct framing *framing,
                         enum jpeg_color color, const uint8_t *target, uint8_t *rgb,
                         size_t stride_bytes)
{
    size_t row_bytes = target_stride(framing), plane_bytes = row_bytes * framing->height;
    for (uint32_t y = 0; y < framing->height; y++, target += row_bytes, rgb += stride_bytes) {
        const uint8_t *second = target + plane_bytes, *third = second + plane_bytes;
        if (color == JPEG_GRAY)
            color_gray_to_rgb(kernels, target, rgb, framing->width);
        else if (color == JPEG_RGB)
            color_planes_to_rgb(kernels, target, second, third, rgb, framing->width);
        else
            color_ycbcr_to_rgb(kernels, target, second, third, rgb, framing->width);
    }
}

int render_planes(struct renderer *renderer, const struct framing *framing,
                  const struct jpeg_planes *planes, uint8_t *rgb, size_t stride_bytes,
                  struct err *err)
{
    size_t plane_bytes = target_stride(framing) * framing->height;
    int status = pixels_reserve(&renderer->target, plane_bytes * planes->count, err);
    for (uint32_t i = 0; !status && i < planes->count; i++) {
        const struct jpeg_plane *plane = &planes->plane[i];
        struct samples samples = {plane->data, plane->stride_bytes, plane->left, plane->top, 1};
        status = resample_samples(renderer, plans_index(planes, i), framing, &samples,
                                  renderer->target.data + i * plane_bytes, err);
    }
    if (!status)
        convert_rows(renderer->kernels, framing, planes->color, renderer->target.data, rgb,
                     stride_bytes);
    return status;
}

int render_pixels(struct renderer *renderer, const struct framing *framing,
                  const struct pixels *pixels, uint8_t *rgb, size_t stride_bytes, struct err *err)
{
    struct samples samples = {pixels->data, pixels->stride_bytes, pixels->region.x,
                              pixels->region.y, pixels->channels};
    size_t plane_bytes = target_stride(framing) * framing->height;
    int status = pixels_reserve(&renderer->target, plane_bytes * pixels->channels, err);
    if (!status)
        status = resample_samples(renderer, 0, framing, &samples, renderer->target.data, err);
    if (!status)
        convert_rows(renderer->kernels, framing, pixels->channels == 1 ? JPEG_GRAY : JPEG_RGB,
                     renderer->target.data, rgb, stride_bytes);
    return status;
}

void renderer_deinit(struct renderer *renderer)
{
    for (uint32_t i = 0; i < RENDER_PLANES_MAX; i++) {
        resample_plan_deinit(&renderer->row_plans[i]);
        resample_plan_deinit(&renderer->column_plans[i]);
    }
    free(renderer->transposed_plane.data);
    free(renderer->target.data);
    *renderer = (struct renderer){0};
}
