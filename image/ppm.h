/*
 * ppm — binary PPM files (P6, 8 bits; netpbm's ppm(5)): a text header, then rows of RGB. See
 * pixels.h for the calling sequence.
 *
 * Nothing is decoded: pixels are where the file's bytes are, and any part of the rows can be used
 * alone.
 */
#ifndef MILLRACE_IMAGE_PPM_H
#define MILLRACE_IMAGE_PPM_H

#include "image/pixels.h"

#include <stdbool.h>

enum {
    PPM_HEADER_BYTES_MAX = 64,        /* that are written: three numbers take some twenty */
    PPM_HEADER_READ_BYTES_MAX = 4096, /* that are read: programs write comments, a line or two */
};

/* By value. */
struct ppm {
    const uint8_t *data; /* borrowed */
    uint32_t header_bytes, width, height;
};

int ppm_begin(struct ppm *ppm, const void *data, size_t bytes, const char *path,
              struct pixels_info *ret_info, struct err *err);
struct pixels ppm_pixels(const struct ppm *ppm); /* the whole image */

/* Writes the header of such a file; returns its bytes. */
size_t ppm_write_header(char header[PPM_HEADER_BYTES_MAX], uint32_t width, uint32_t height);

#endif
