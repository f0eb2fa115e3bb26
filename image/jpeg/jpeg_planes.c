/*
 * jpeg_planes — derives the shape of a JPEG's planes from its sampling factors (jpeg.h; ITU-T
 * T.81, A.1.1).
 */
#include "image/jpeg/jpeg.h"

#include "base/bytes.h"

static void reduce_fraction(uint32_t *num, uint32_t *den)
{
    for (uint32_t by = *num; by > 1; by--) {
        if (*num % by == 0 && *den % by == 0) {
            *num /= by;
            *den /= by;
        }
    }
}

uint32_t jpeg_max_factor(const uint32_t *factors, uint32_t count)
{
    uint32_t max = 1;
    for (uint32_t i = 0; i < count; i++)
        max = factors[i] > max ? factors[i] : max;
    return max;
}

struct jpeg_planes jpeg_planes_of(const struct jpeg_info *info)
{
    bool converted = info->color == JPEG_CMYK || info->color == JPEG_YCCK;
    uint32_t h_max = jpeg_max_factor(info->h_samp, info->components),
             v_max = jpeg_max_factor(info->v_samp, info->components);
    struct jpeg_planes planes = {
        .width = info->width,
        .height = info->height,
        .color = converted ? JPEG_RGB : info->color,
        .count = converted ? 3 : info->components,
    };
    for (uint32_t i = 0; i < planes.count; i++) {
        struct jpeg_plane *plane = &planes.plane[i];
        *plane = (struct jpeg_plane){.x_num = 1, .x_den = 1, .y_num = 1, .y_den = 1};
        if (!converted) {
            plane->x_num = info->h_samp[i];
            plane->x_den = h_max;
            plane->y_num = info->v_samp[i];
            plane->y_den = v_max;
            reduce_fraction(&plane->x_num, &plane->x_den);
            reduce_fraction(&plane->y_num, &plane->y_den);
        }
        plane->width =
            (uint32_t)bytes_divide_up((uint64_t)info->width * plane->x_num, plane->x_den);
        plane->height =
            (uint32_t)bytes_divide_up((uint64_t)info->height * plane->y_num, plane->y_den);
    }
    return planes;
}
