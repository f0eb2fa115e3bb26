/*
 * fixtures — images for the tests of image/: rendered ones, folders of real ones, and how far two
 * are apart.
 */
#ifndef MILLRACE_TESTS_IMAGE_FIXTURES_H
#define MILLRACE_TESTS_IMAGE_FIXTURES_H

#include "image/jpeg.h"

#include <stddef.h>
#include <stdint.h>

/* Real files of one folder or of a glob below MILLRACE_TEST_DATA, in byte order; the test is
 * skipped where absent. */
struct test_files {
    size_t count;
    char **path;
};
struct test_files test_files_find(const char *relative_glob);
void test_files_free(struct test_files *files);

const char *test_name_of(const char *path); /* what stands behind its last slash */

struct jpeg_decoder *test_open_decoder(void);

/* Smooth colours, edges and some noise, the same for the same sizes; memory of malloc, rows of 3 *
 * width bytes. */
uint8_t *test_render_rgb(uint32_t width, uint32_t height);
/* That image as a JPEG of the given quality; bytes of malloc. */
unsigned char *test_render_jpeg(uint32_t width, uint32_t height, int quality, size_t *ret_bytes);
/* The same file with an EXIF segment of this orientation behind its first marker; bytes of
 * malloc. */
unsigned char *test_add_orientation(const unsigned char *jpeg, size_t bytes, unsigned orientation,
                                    size_t *ret_bytes);

/* Fails, naming what, unless every sample of which a pixel of the part has some share is the
 * whole's. */
void test_compare_part(const struct jpeg_planes *whole, const struct jpeg_planes *some,
                       struct image_rect part, const char *what);

/* Peak signal to noise in dB; 99 where they are the same. */
double test_psnr(const uint8_t *a, const uint8_t *b, size_t count);

#endif
