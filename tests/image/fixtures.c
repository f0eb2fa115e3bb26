/*
 * fixtures — see fixtures.h.
 */
#include "tests/image/fixtures.h"

#include "base/bytes.h"
#include "base/philox.h"
#include "tests/support/test.h"

#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct test_files test_files_find(const char *relative_glob)
{
    char folder[TEST_PATH_BYTES_MAX], top[TEST_PATH_BYTES_MAX], pattern[2 * TEST_PATH_BYTES_MAX];
    snprintf(top, sizeof top, "%s", relative_glob);
    top[strcspn(top, "/")] = '\0';
    test_need_data(top, folder);
    snprintf(pattern, sizeof pattern, "%s%s", folder, relative_glob + strlen(top));
    glob_t found = {0};
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    struct test_files files = {.count = found.gl_pathc,
                               .path = calloc(found.gl_pathc, sizeof(char *))};
    assert_non_null(files.path);
    for (size_t i = 0; i < files.count; i++)
        files.path[i] = strdup(found.gl_pathv[i]);
    globfree(&found);
    return files;
}

void test_files_free(struct test_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->path[i]);
    free(files->path);
    *files = (struct test_files){0};
}

const char *test_file_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

struct jpeg_decoder *test_open_decoder(void)
{
    struct err err;
    struct jpeg_decoder *decoder;
    assert_ok(jpeg_decoder_open(&decoder, &err), &err);
    return decoder;
}

uint8_t *test_render_rgb(uint32_t width, uint32_t height)
{
    uint8_t *rgb = malloc(3 * (size_t)width * height);
    assert_non_null(rgb);
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            uint8_t *pixel = rgb + 3 * ((size_t)y * width + x);
            uint32_t noise = philox(0, y, x).word[0] & 7,
                     box = (x * 5 / width + y * 3 / height) % 2 * 60;
            pixel[0] = (uint8_t)(x * 180 / width + box + noise);
            pixel[1] = (uint8_t)(y * 180 / height + box + noise);
            pixel[2] = (uint8_t)((x + y) * 120 / (width + height) + 60 + noise);
        }
    }
    return rgb;
}

unsigned char *test_render_jpeg(uint32_t width, uint32_t height, int quality, size_t *ret_bytes)
{
    struct err err;
    struct str out = {0};
    uint8_t *rgb = test_render_rgb(width, height);
    assert_ok(jpeg_encode(rgb, width, height, 3 * (size_t)width, quality, 0, &out, &err), &err);
    free(rgb);
    *ret_bytes = out.bytes;
    return (unsigned char *)out.data;
}

unsigned char *test_add_orientation(const unsigned char *jpeg, size_t bytes, unsigned orientation,
                                    size_t *ret_bytes)
{
    unsigned char segment[] = {0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0,  'M', 'M',
                               0,    42,   0, 0,  0,   8,   0,   1,   1, 18, 0,   3,
                               0,    0,    0, 1,  0,   0,   0,   0,   0, 0,  0,   0};
    segment[29] = (unsigned char)orientation;
    unsigned char *out = malloc(bytes + sizeof segment);
    assert_non_null(out);
    memcpy(out, jpeg, 2);
    memcpy(out + 2, segment, sizeof segment);
    memcpy(out + 2 + sizeof segment, jpeg + 2, bytes - 2);
    *ret_bytes = bytes + sizeof segment;
    return out;
}

void test_compare_region(const struct jpeg_planes *first, const struct jpeg_planes *second,
                         struct image_rect part, const char *what)
{
    assert_true(second->width == first->width && second->height == first->height);
    assert_true(second->count == first->count && second->color == first->color);
    for (uint32_t i = 0; i < first->count; i++) {
        const struct jpeg_plane *a = &first->plane[i], *b = &second->plane[i];
        uint32_t left = part.x * a->x_num / a->x_den, top = part.y * a->y_num / a->y_den;
        uint32_t right =
            (uint32_t)bytes_divide_up((uint64_t)(part.x + part.width) * a->x_num, a->x_den);
        uint32_t bottom =
            (uint32_t)bytes_divide_up((uint64_t)(part.y + part.height) * a->y_num, a->y_den);
        assert_true(a->left <= left && a->top <= top && b->left <= left && b->top <= top);
        assert_true(b->width == a->width && b->height == a->height);
        for (uint32_t y = top; y < bottom; y++)
            if (memcmp(a->data + (y - a->top) * a->stride_bytes + (left - a->left),
                       b->data + (y - b->top) * b->stride_bytes + (left - b->left), right - left))
                fail_msg("%s: plane %u, row %u, columns %u to %u differ", what, i, y, left, right);
    }
}

double test_psnr(const uint8_t *a, const uint8_t *b, size_t count)
{
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (double)(a[i] - b[i]) * (a[i] - b[i]);
    return squares > 0 ? 10 * log10(255.0 * 255.0 * (double)count / squares) : 99;
}
