/*
 * geometry — see geometry.h.
 */
#include "image/pipeline/geometry.h"

#include "base/bytes.h"
#include "image/kernels/augment_ops.h"
#include "image/kernels/resample.h"

#include <assert.h>

/* ---- Boxes and points. ---- */

/* Where an affine map takes its source: the inverse. */
static void move_point(const struct affine *affine, double *x, double *y)
{
    double from_x = *x - affine->c, from_y = *y - affine->f,
           determinant = affine->a * affine->e - affine->b * affine->d;
    *x = (affine->e * from_x - affine->b * from_y) / determinant;
    *y = (affine->a * from_y - affine->d * from_x) / determinant;
}

static double min_of(double a, double b)
{
    return a < b ? a : b;
}

static double max_of(double a, double b)
{
    return a > b ? a : b;
}

/* Returns the fraction of the box's area inside the bounds; 0: none. */
static double clip_box(struct image_box *box, struct image_box bounds)
{
    double width = box->x1 - box->x0, height = box->y1 - box->y0;
    *box = (struct image_box){max_of(box->x0, bounds.x0), max_of(box->y0, bounds.y0),
                              min_of(box->x1, bounds.x1), min_of(box->y1, bounds.y1)};
    double clipped_width = box->x1 - box->x0, clipped_height = box->y1 - box->y0;
    if (!(clipped_width > 0 && clipped_height > 0))
        return 0;
    return clipped_width / width * (clipped_height / height);
}

/* Maps a point of the upright image to the resized and flipped crop. */
static void map_to_crop(const struct image_geometry *geometry, double *x, double *y)
{
    const struct image_rect *rect = &geometry->crop.rect;
    *x = (*x - rect->x) * geometry->width / rect->width;
    *y = (*y - rect->y) * geometry->height / rect->height;
    if (geometry->crop.flip)
        *x = geometry->width - *x;
}

static struct image_box enclosing_box(const struct affine *affine, const struct image_box *box)
{
    double x[4] = {box->x0, box->x1, box->x0, box->x1}, y[4] = {box->y0, box->y0, box->y1, box->y1};
    struct image_box moved;
    for (int i = 0; i < 4; i++) {
        move_point(affine, &x[i], &y[i]);
        if (i == 0)
            moved = (struct image_box){x[0], y[0], x[0], y[0]};
        moved = (struct image_box){min_of(moved.x0, x[i]), min_of(moved.y0, y[i]),
                                   max_of(moved.x1, x[i]), max_of(moved.y1, y[i])};
    }
    return moved;
}

double geometry_map_box(const struct image_geometry *geometry, struct image_box *box)
{
    const struct image_rect *rect = &geometry->crop.rect;
    struct image_box crop = {rect->x, rect->y, (double)rect->x + rect->width,
                             (double)rect->y + rect->height},
                     target = {0, 0, geometry->width, geometry->height};
    double remaining = clip_box(box, crop);
    if (remaining == 0)
        return 0;
    map_to_crop(geometry, &box->x0, &box->y0);
    map_to_crop(geometry, &box->x1, &box->y1);
    if (geometry->crop.flip)
        *box = (struct image_box){box->x1, box->y0, box->x0, box->y1};
    for (uint32_t i = 0; remaining > 0 && i < geometry->steps_count; i++) {
        struct affine affine;
        if (!augment_find_affine(geometry->steps[i], geometry->width, geometry->height, &affine))
            continue;
        *box = enclosing_box(&affine, box);
        remaining *= clip_box(box, target);
    }
    return remaining;
}

bool geometry_map_point(const struct image_geometry *geometry, double *x, double *y)
{
    const struct image_rect *rect = &geometry->crop.rect;
    if (!(*x >= rect->x && *x <= (double)rect->x + rect->width && *y >= rect->y &&
          *y <= (double)rect->y + rect->height))
        return false;
    map_to_crop(geometry, x, y);
    for (uint32_t i = 0; i < geometry->steps_count; i++) {
        struct affine affine;
        if (!augment_find_affine(geometry->steps[i], geometry->width, geometry->height, &affine))
            continue;
        move_point(&affine, x, y);
        if (!(*x >= 0 && *x <= geometry->width && *y >= 0 && *y <= geometry->height))
            return false;
    }
    return true;
}

/* ---- Masks. ---- */

/* Where the mask's numbers for the target come from. */
struct sampler {
    const struct image_mask *mask;
    uint32_t width, height;                /* of the target */
    uint32_t columns[RESAMPLE_TARGET_MAX]; /* of the mask, by column of the target */
    uint32_t row_first, rows;              /* of the mask: the crop */
    struct warp warps[AUGMENT_STEPS_MAX];
    uint32_t warps_count;
};

static uint32_t nearest(uint32_t index, uint32_t from_count, uint32_t to_count)
{
    return (uint32_t)((2 * (uint64_t)index + 1) * from_count / (2 * (uint64_t)to_count));
}

static void init_sampler(struct sampler *sampler, const struct image_geometry *geometry,
                         const struct image_mask *mask)
{
    const struct image_rect *rect = &geometry->crop.rect;
    sampler->mask = mask;
    sampler->width = geometry->width;
    sampler->height = geometry->height;
    sampler->row_first = rect->y;
    sampler->rows = rect->height;
    sampler->warps_count = 0;
    for (uint32_t x = 0; x < geometry->width; x++) {
        uint32_t column = geometry->crop.flip ? geometry->width - 1 - x : x;
        sampler->columns[x] = rect->x + nearest(column, rect->width, geometry->width);
    }
    for (uint32_t i = 0; i < geometry->steps_count; i++) {
        struct affine affine;
        if (augment_find_affine(geometry->steps[i], geometry->width, geometry->height, &affine))
            sampler->warps[sampler->warps_count++] = warp_from_affine(&affine);
    }
}

static const uint8_t *mask_row(const struct sampler *sampler, uint32_t y)
{
    uint32_t row = sampler->row_first + nearest(y, sampler->rows, sampler->height);
    return sampler->mask->data + (row - sampler->mask->first_row) * sampler->mask->stride_bytes;
}

static uint16_t mask_value(const struct image_mask *mask, const uint8_t *row, uint32_t column)
{
    return mask->value_bytes == 1 ? row[column] : bytes_get_u16(row + 2 * (size_t)column);
}

/* Follows the steps back to the pixel of the resized crop. False: it came from outside. */
static bool find_pixel(const struct sampler *sampler, int64_t *x, int64_t *y)
{
    for (uint32_t i = sampler->warps_count; i-- > 0;) {
        const struct warp *warp = &sampler->warps[i];
        int64_t from_x = (warp->a * *x + warp->b * *y + warp->c) >> WARP_FRACTION_BITS,
                from_y = (warp->d * *x + warp->e * *y + warp->f) >> WARP_FRACTION_BITS;
        if (from_x < 0 || from_x >= sampler->width || from_y < 0 || from_y >= sampler->height)
            return false;
        *x = from_x;
        *y = from_y;
    }
    return true;
}

static void sample_row(const struct sampler *sampler, uint32_t y, uint16_t *values)
{
    const struct image_mask *mask = sampler->mask;
    const uint8_t *row = mask_row(sampler, y);
    if (sampler->warps_count == 0) {
        for (uint32_t x = 0; x < sampler->width; x++)
            values[x] = mask_value(mask, row, sampler->columns[x]);
        return;
    }
    for (uint32_t x = 0; x < sampler->width; x++) {
        int64_t from_x = x, from_y = y;
        values[x] =
            find_pixel(sampler, &from_x, &from_y)
                ? mask_value(mask, mask_row(sampler, (uint32_t)from_y), sampler->columns[from_x])
                : 0;
    }
}

static void store_row(const uint16_t *values, uint32_t count, void *target, size_t target_bytes)
{
    switch (target_bytes) {
    case 1:
        for (uint32_t x = 0; x < count; x++)
            ((uint8_t *)target)[x] = (uint8_t)values[x];
        break;
    case 2:
        for (uint32_t x = 0; x < count; x++)
            ((uint16_t *)target)[x] = values[x];
        break;
    case 4:
        for (uint32_t x = 0; x < count; x++)
            ((uint32_t *)target)[x] = values[x];
        break;
    default:
        for (uint32_t x = 0; x < count; x++)
            ((uint64_t *)target)[x] = values[x];
        break;
    }
}

void geometry_find_rows(const struct image_geometry *geometry, uint32_t *ret_first,
                        uint32_t *ret_count)
{
    *ret_first = geometry->crop.rect.y;
    *ret_count = geometry->crop.rect.height;
}

void geometry_sample_mask(const struct image_geometry *geometry, const struct image_mask *mask,
                          void *target, size_t target_bytes)
{
    struct sampler sampler;
    uint16_t values[RESAMPLE_TARGET_MAX];
    assert(geometry->width <= RESAMPLE_TARGET_MAX && target_bytes >= mask->value_bytes);
    init_sampler(&sampler, geometry, mask);
    for (uint32_t y = 0; y < geometry->height; y++) {
        sample_row(&sampler, y, values);
        store_row(values, geometry->width, (uint8_t *)target + y * geometry->width * target_bytes,
                  target_bytes);
    }
}
