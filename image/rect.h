/*
 * rect — pixel rectangles and the eight EXIF orientations.
 *
 * Orientation n maps the stored image to the upright one: 1 unchanged, 2 mirrored left-right, 3
 * rotated by 180, 4 mirrored top-bottom, 5 transposed, 6 rotated by 90 clockwise, 7 transposed
 * across the other diagonal, 8 rotated by 270 clockwise.
 */
#ifndef MILLRACE_IMAGE_RECT_H
#define MILLRACE_IMAGE_RECT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* x, y from the top left. Empty if width or height is 0. */
struct image_rect {
    uint32_t x, y, width, height;
};

static inline bool orientation_swaps_sides(uint32_t orientation)
{
    return orientation >= 5;
}

/* True if the upright image starts at the stored image's right (or bottom) edge. */
static inline bool orientation_flips_x(uint32_t orientation)
{
    return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

static inline bool orientation_flips_y(uint32_t orientation)
{
    return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

/* Returns the rectangle of the stored image (width x height) that the orientation maps to
 * `upright`. */
static inline struct image_rect orientation_to_stored(uint32_t orientation,
                                                      struct image_rect upright, uint32_t width,
                                                      uint32_t height)
{
    struct image_rect r = upright;
    if (orientation_swaps_sides(orientation)) {
        r.x = upright.y, r.y = upright.x;
        r.width = upright.height, r.height = upright.width;
    }
    if (orientation_flips_x(orientation))
        r.x = width - r.x - r.width;
    if (orientation_flips_y(orientation))
        r.y = height - r.y - r.height;
    return r;
}

#ifdef __cplusplus
}
#endif

#endif
