/*
 * mask — the class number of each pixel of an image, as stored.
 */
#ifndef MILLRACE_IMAGE_MASK_H
#define MILLRACE_IMAGE_MASK_H

#include <stddef.h>
#include <stdint.h>

/* Rows of a mask as wide as its image. */
struct image_mask {
    const uint8_t *data;  /* of first_row; unaligned */
    uint32_t value_bytes; /* 1 or 2, of each number, little-endian */
    size_t stride_bytes;
    uint32_t first_row;
};

#endif
