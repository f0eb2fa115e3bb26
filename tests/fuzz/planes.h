/*
 * planes — compares two decodings of a JPEG, for the fuzz targets of its decoders.
 */
#ifndef MILLRACE_TESTS_FUZZ_PLANES_H
#define MILLRACE_TESTS_FUZZ_PLANES_H

#include "image/jpeg/jpeg.h"

#include <stdlib.h>
#include <string.h>

/* Aborts unless both hold every sample that contributes to a pixel of the part, and these are
 * equal. */
static inline void planes_compare(const struct jpeg_planes *first, const struct jpeg_planes *second,
                                  struct image_rect part)
{
    if (first->count != second->count)
        abort();
    for (uint32_t i = 0; i < first->count; i++) {
        const struct jpeg_plane *a = &first->plane[i], *b = &second->plane[i];
        uint32_t left = part.x * a->x_num / a->x_den, top = part.y * a->y_num / a->y_den;
        uint32_t right = ((part.x + part.width) * a->x_num + a->x_den - 1) / a->x_den;
        uint32_t bottom = ((part.y + part.height) * a->y_num + a->y_den - 1) / a->y_den;
        if (a->left > left || a->top > top || b->left > left || b->top > top)
            abort();
        for (uint32_t y = top; y < bottom; y++)
            if (memcmp(a->data + (y - a->top) * a->stride_bytes + (left - a->left),
                       b->data + (y - b->top) * b->stride_bytes + (left - b->left), right - left))
                abort();
    }
}

#endif
