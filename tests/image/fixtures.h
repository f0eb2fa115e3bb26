/*
 * fixtures — rendered and real images for the tests of image/, and functions that compare images.
 */
#ifndef MILLRACE_TESTS_IMAGE_FIXTURES_H
#define MILLRACE_TESTS_IMAGE_FIXTURES_H

#include "image/jpeg/jpeg.h"

#include <stddef.h>
#include <stdint.h>

/* Real files in a folder or matching a glob below MILLRACE_TEST_DATA, sorted by bytes; skips the
 * test if absent. */
struct test_files {
    size_t count;
    char **path;
};
struct test_files test_files_find(const char *relative_glob);
void test_files_free(struct test_files *files);

const char *test_file_name(const char *path); /* the part after the last slash */

struct jpeg_decoder *test_open_decoder(void);

/* Smooth colors, edges and some noise, determined by the size; malloc'ed, rows of 3 * width
 * bytes. */
uint8_t *test_render_rgb(uint32_t width, uint32_t height);
/* That image as a JPEG of the given quality; malloc'ed. */
unsigned char *test_render_jpeg(uint32_t width, uint32_t height, int quality, size_t *ret_bytes);
/* The same file with an EXIF segment of this orientation after its first marker; malloc'ed. */
unsigned char *test_add_orientation(const unsigned char *jpeg, size_t bytes, unsigned orientation,
                                    size_t *ret_bytes);

/* Fails with a message that names `what` unless both hold every sample that contributes to a pixel
 * of the part, and these are equal. */
void test_compare_region(const struct jpeg_planes *first, const struct jpeg_planes *second,
                         struct image_rect part, const char *what);

/* Peak signal-to-noise ratio in dB; 99 if equal. */
double test_psnr(const uint8_t *a, const uint8_t *b, size_t count);

#endif
