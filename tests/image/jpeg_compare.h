/*
 * jpeg_compare — decodes parts of JPEGs with jpeg_fast, by each kernel, and with libjpeg, and fails
 * unless verdicts, numbers of warnings and samples are the same.
 */
#ifndef MILLRACE_TESTS_IMAGE_JPEG_COMPARE_H
#define MILLRACE_TESTS_IMAGE_JPEG_COMPARE_H

#include "image/jpeg/jpeg.h"

#include <stddef.h>
#include <stdint.h>

struct jpeg_compare {
    struct jpeg_decoder *fast, *libjpeg;
    /* so far: compared; decoded by jpeg_fast; accepted by libjpeg */
    uint64_t parts, used_fast, accepted;
};

struct jpeg_compare jpeg_compare_open(void);
void jpeg_compare_close(struct jpeg_compare *compare);

/* libjpeg must accept the headers. name: for messages. */
void jpeg_compare_part(struct jpeg_compare *compare, const void *data, size_t bytes,
                       const char *name, struct image_rect part);

#endif
