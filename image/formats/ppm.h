/*
 * ppm — binary PPM files (P6, 8 bits; netpbm's ppm(5)): a text header, then rows of RGB. See
 * pixels.h for the calling sequence.
 *
 * Pixels are used in place, and any range of rows can be used separately.
 */
#ifndef MILLRACE_IMAGE_FORMATS_PPM_H
#define MILLRACE_IMAGE_FORMATS_PPM_H

#include "image/formats/pixels.h"

#include <stdbool.h>

enum {
    PPM_HEADER_BYTES_MAX = 64,        /* limit when writing */
    PPM_HEADER_READ_BYTES_MAX = 4096, /* limit when reading, with comments */
};

struct ppm {
    const uint8_t *data; /* borrowed */
    uint32_t header_bytes, width, height;
};

int ppm_begin(struct ppm *ppm, const void *data, size_t bytes, const char *path,
              struct pixels_info *ret_info, struct err *err);
struct pixels ppm_pixels(const struct ppm *ppm); /* the whole image */

/* Returns the length in bytes. */
size_t ppm_write_header(char header[PPM_HEADER_BYTES_MAX], uint32_t width, uint32_t height);

#endif
