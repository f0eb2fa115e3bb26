/*
 * jpeg_fast — parts decoded by jpeg_fast are those that libjpeg decodes: the same verdict, the same
 * number of warnings, the same bytes, for real images, synthetic ones of all kinds, and damaged
 * ones, with all kernels. jpeg_streams.c has what encoders never write.
 *
 * MILLRACE_TEST_JPEGS sets the number of synthetic and of damaged images (by default 400 and 4,000
 * in all).
 */
#include "base/philox.h"
#include "image/jpeg/jpeg.h"
#include "image/jpeg/jpeg_tile.h"
#include "tests/image/fixtures.h"
#include "tests/image/jpeg_compare.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

enum { SEED = 77, DAMAGES = 10, SIDE_MAX = 120, RARE_SIDE_MAX = 700 };

static uint32_t draw(uint64_t number, uint32_t what, uint32_t below)
{
    struct philox_block random = philox(SEED, (uint32_t)number, what);
    return random.word[0] % below;
}

static struct image_rect draw_part(const struct jpeg_info *info, uint64_t number)
{
    struct image_rect part = {.width = info->width, .height = info->height};
    if (number % 4 == 0)
        return part;
    part.x = draw(number, 1, info->width);
    part.y = draw(number, 2, info->height);
    part.width = 1 + draw(number, 3, info->width - part.x);
    part.height = 1 + draw(number, 4, info->height - part.y);
    return part;
}

/* A random part, if libjpeg accepts the headers, which it reads for both. */
static void compare(struct jpeg_compare *decoders, const void *data, size_t bytes, const char *name,
                    uint64_t number)
{
    struct jpeg_info info;
    struct err err;
    if (jpeg_decode_begin(decoders->libjpeg, data, bytes, name, &info, &err) == 0)
        jpeg_compare_part(decoders, data, bytes, name, draw_part(&info, number));
}

/* ---- Synthetic images. ---- */

static const int samplings[][6] = {
    {1, 1, 1, 1, 1, 1}, {2, 1, 1, 1, 1, 1}, {1, 2, 1, 1, 1, 1}, {2, 2, 1, 1, 1, 1},
    {2, 2, 2, 2, 1, 2}, {3, 1, 1, 1, 1, 1}, {2, 2, 2, 1, 1, 2}, {4, 1, 1, 1, 1, 1},
    {2, 2, 1, 2, 1, 2}, {1, 1, 2, 2, 1, 1},
};
enum { SAMPLINGS = sizeof samplings / sizeof samplings[0] };

/* Smooth areas, edges, and noise of a strength that differs between images. */
static void render_row(uint8_t *row, uint32_t width, uint32_t y, uint64_t number)
{
    uint32_t noise = draw(number, 10, 4) == 0 ? 256 : 1 + draw(number, 11, 40);
    for (uint32_t i = 0; i < 3 * width; i++) {
        uint32_t x = i / 3, value = (x * (i % 3 + 1) + 2 * y) & 255;
        if ((x / 13 + y / 9) % 5 == 0)
            value = (x + y) % 2 ? 255 : 0;
        row[i] = (uint8_t)(value + draw(number * 131 + y, 100 + i, noise));
    }
}

static void ignore(j_common_ptr codec)
{
    (void)codec;
}

static unsigned char *encode(uint64_t number, size_t *ret_bytes)
{
    struct jpeg_compress_struct codec;
    struct jpeg_error_mgr errors;
    unsigned char *jpeg = NULL;
    unsigned long bytes = 0;
    uint32_t side_max = number % 50 == 0 ? RARE_SIDE_MAX : SIDE_MAX;
    const int *sampling = samplings[draw(number, 5, SAMPLINGS)];
    bool is_gray = draw(number, 6, 8) == 0;
    codec.err = jpeg_std_error(&errors);
    errors.output_message = ignore; /* of coarse quantization */
    jpeg_create_compress(&codec);
    jpeg_mem_dest(&codec, &jpeg, &bytes);
    codec.image_width = 1 + draw(number, 7, side_max);
    codec.image_height = 1 + draw(number, 8, side_max);
    codec.input_components = 3;
    codec.in_color_space = JCS_RGB;
    jpeg_set_defaults(&codec);
    jpeg_set_colorspace(&codec, is_gray ? JCS_GRAYSCALE : JCS_YCbCr);
    jpeg_set_quality(&codec, 1 + (int)draw(number, 9, 100), draw(number, 12, 4) > 0);
    for (int i = 0; i < codec.num_components && !is_gray; i++) {
        codec.comp_info[i].h_samp_factor = sampling[2 * i];
        codec.comp_info[i].v_samp_factor = sampling[2 * i + 1];
    }
    codec.restart_interval = draw(number, 13, 3) ? draw(number, 14, 9) : 0;
    codec.restart_in_rows = draw(number, 15, 4) == 0;
    codec.optimize_coding = draw(number, 16, 2);
    jpeg_start_compress(&codec, TRUE);
    uint8_t *row = malloc(3 * (size_t)codec.image_width);
    assert_non_null(row);
    while (codec.next_scanline < codec.image_height) {
        JSAMPROW rows[] = {row};
        render_row(row, codec.image_width, codec.next_scanline, number);
        jpeg_write_scanlines(&codec, rows, 1);
    }
    jpeg_finish_compress(&codec);
    jpeg_destroy_compress(&codec);
    free(row);
    *ret_bytes = bytes;
    return jpeg;
}

static uint64_t images(void)
{
    const char *count = getenv("MILLRACE_TEST_JPEGS");
    return count ? strtoull(count, NULL, 10) : 400;
}

static void synthetic_images_decode_as_in_libjpeg(void **state)
{
    (void)state;
    struct jpeg_compare decoders = jpeg_compare_open();
    for (uint64_t i = 0; i < images(); i++) {
        size_t bytes;
        unsigned char *jpeg = encode(i, &bytes);
        compare(&decoders, jpeg, bytes, "synthetic", i);
        free(jpeg);
    }
    printf("seed %d: %d parts, %d by jpeg_fast\n", SEED, (int)decoders.parts,
           (int)decoders.used_fast);
    assert_int_equal(decoders.accepted, decoders.parts);
    assert_true(decoders.used_fast > decoders.parts * 9 / 10);
    jpeg_compare_close(&decoders);
}

static size_t find_marker(const unsigned char *jpeg, size_t bytes, unsigned char marker)
{
    for (size_t i = 0; i + 1 < bytes; i++)
        if (jpeg[i] == 0xff && jpeg[i + 1] == marker)
            return i;
    fail_msg("there is no marker %x", marker);
    return 0;
}

/* libjpeg-turbo 3 accepts the headers of a lossless image; jpeg_fast must not decode it. */
static void lossless_images_are_refused(void **state)
{
    (void)state;
    struct jpeg_compare decoders = jpeg_compare_open();
    struct jpeg_info info;
    struct err err;
    size_t bytes;
    unsigned char *jpeg = test_render_jpeg(40, 30, 90, &bytes);
    jpeg[find_marker(jpeg, bytes, 0xc0) + 1] = 0xc3;
    assert_int_equal(jpeg_decode_begin(decoders.fast, jpeg, bytes, "lossless", &info, &err),
                     -EBADMSG);
    free(jpeg);
    jpeg_compare_close(&decoders);
}

/* libjpeg ignores a comment of length 0; jpeg_cut rejects it, so libjpeg decodes from the start. */
static void damage_above_a_part_is_found_if_it_cannot_be_cut_out(void **state)
{
    (void)state;
    static const unsigned char comment[] = {0xff, 0xfe, 0, 0};
    struct jpeg_compare decoders = jpeg_compare_open();
    size_t bytes, photo_bytes;
    unsigned char *photo = test_render_jpeg(96, 96, 90, &photo_bytes);
    struct str tiled = {0};
    struct err err;
    bool is_tiled;
    assert_ok(jpeg_tile(photo, photo_bytes, "photo", &tiled, &is_tiled, &err), &err);
    assert_true(is_tiled);
    bytes = tiled.bytes + sizeof comment;
    unsigned char *jpeg = malloc(bytes);
    assert_non_null(jpeg);
    memcpy(jpeg, tiled.data, 2);
    memcpy(jpeg + 2, comment, sizeof comment);
    memcpy(jpeg + 2 + sizeof comment, tiled.data + 2, tiled.bytes - 2);
    size_t first = find_marker(jpeg, bytes, 0xd0);
    memset(jpeg + first - 8, 0xfe, 8);
    struct image_rect bottom = {.x = 0, .y = 88, .width = 96, .height = 8};
    jpeg_compare_part(&decoders, jpeg, bytes, "damaged above", bottom);
    assert_int_equal(decoders.accepted, 0);
    free(jpeg);
    str_deinit(&tiled);
    free(photo);
    jpeg_compare_close(&decoders);
}

/* Changes, removes or doubles a few bytes, most of them in the entropy-coded data. */
static size_t damage(unsigned char *jpeg, size_t bytes, uint64_t number)
{
    uint32_t changes = 1 + draw(number, 20, 3);
    for (uint32_t i = 0; i < changes; i++) {
        size_t at = draw(number, 21 + i, (uint32_t)bytes);
        if (draw(number, 31 + i, 8) > 0)
            at = bytes - 1 - at / 2;
        uint32_t kind = draw(number, 41 + i, 6);
        if (kind == 0)
            memmove(jpeg + at, jpeg + at + 1, --bytes - at);
        else if (kind == 1)
            memmove(jpeg + at + 1, jpeg + at, bytes - at - 1);
        else if (kind == 2)
            jpeg[at] ^= (unsigned char)(1U << draw(number, 51 + i, 8));
        else if (kind == 3)
            jpeg[at] = 0xff;
        else
            jpeg[at] = (unsigned char)draw(number, 61 + i, 256);
        if (bytes < 4)
            break;
    }
    return bytes;
}

static void damaged_images_have_libjpegs_verdict(void **state)
{
    (void)state;
    struct jpeg_compare decoders = jpeg_compare_open();
    for (uint64_t i = 0; i < images(); i++) {
        size_t bytes;
        unsigned char *jpeg = encode(i, &bytes), *copy = malloc(bytes);
        assert_non_null(copy);
        for (uint64_t k = 0; k < DAMAGES && bytes > 1000; k++) {
            char name[60];
            snprintf(name, sizeof name, "image %d, damage %d", (int)i, (int)k);
            memcpy(copy, jpeg, bytes);
            size_t left = damage(copy, bytes, i * DAMAGES + k);
            compare(&decoders, copy, left, name, i + k);
        }
        free(copy);
        free(jpeg);
    }
    printf("seed %d: %d parts, %d accepted, %d by jpeg_fast\n", SEED, (int)decoders.parts,
           (int)decoders.accepted, (int)decoders.used_fast);
    assert_true(decoders.used_fast > 0 && decoders.used_fast <= decoders.accepted);
    assert_true(decoders.accepted < decoders.parts);
    jpeg_compare_close(&decoders);
}

static void compare_files(const char *pattern, uint64_t *ret_used_fast)
{
    enum { PARTS = 5 };
    struct test_files files = test_files_find(pattern);
    struct jpeg_compare decoders = jpeg_compare_open();
    for (size_t i = 0; i < files.count; i++) {
        size_t bytes;
        unsigned char *data = test_read_file(files.path[i], &bytes);
        for (uint64_t k = 0; k < PARTS; k++)
            compare(&decoders, data, bytes, files.path[i], i * PARTS + k);
        free(data);
    }
    *ret_used_fast = decoders.used_fast;
    jpeg_compare_close(&decoders);
    test_files_free(&files);
}

static void real_images_decode_as_in_libjpeg(void **state)
{
    (void)state;
    uint64_t used_fast;
    compare_files("jpeg-malformed/*.jp*g", &used_fast);
    compare_files("jpeg-variety/*.jp*g", &used_fast);
    assert_true(used_fast > 0);
    compare_files("clothing/validation/*/*.jpg", &used_fast);
    assert_true(used_fast > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_images_decode_as_in_libjpeg),
        cmocka_unit_test(synthetic_images_decode_as_in_libjpeg),
        cmocka_unit_test(damaged_images_have_libjpegs_verdict),
        cmocka_unit_test(lossless_images_are_refused),
        cmocka_unit_test(damage_above_a_part_is_found_if_it_cannot_be_cut_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
