/*
 * pipeline — orientations, flips and crops in one pass equal the same operations done one after
 * another.
 */
#include "image/pipeline/pipeline.h"

#include "base/hash.h"
#include "image/kernels/color.h"
#include "tests/image/fixtures.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct image_pipeline *open_pipeline(uint32_t width, uint32_t height,
                                            struct crop_options crop)
{
    struct err err;
    struct image_pipeline *pipeline;
    struct image_options options = {width, height, crop};
    assert_ok(image_pipeline_open(&options, &pipeline, &err), &err);
    return pipeline;
}

static uint8_t *run_once(uint32_t width, uint32_t height, struct crop_options crop,
                         const unsigned char *jpeg, size_t bytes, struct image_key key)
{
    struct err err;
    struct image_pipeline *pipeline = open_pipeline(width, height, crop);
    uint8_t *rgb = malloc(3 * (size_t)width * height);
    assert_non_null(rgb);
    assert_ok(image_pipeline_run(pipeline, jpeg, bytes, "a.jpg", key, rgb, 3 * (size_t)width, &err),
              &err);
    image_pipeline_close(pipeline);
    return rgb;
}

/* Index in the stored image of pixel x, y of the displayed width x height image: EXIF's table. */
static size_t stored_index(unsigned orientation, uint32_t x, uint32_t y, uint32_t width,
                           uint32_t height)
{
    uint32_t mirror_x = width - 1 - x, mirror_y = height - 1 - y;
    switch (orientation) {
    case 1:
        return (size_t)y * width + x;
    case 2:
        return (size_t)y * width + mirror_x;
    case 3:
        return (size_t)mirror_y * width + mirror_x;
    case 4:
        return (size_t)mirror_y * width + x;
    case 5:
        return (size_t)x * height + y;
    case 6:
        return (size_t)mirror_x * height + y;
    case 7:
        return (size_t)mirror_x * height + mirror_y;
    default:
        return (size_t)x * height + mirror_y;
    }
}

static void every_orientation_equals_rotating_the_upright_result(void **state)
{
    (void)state;
    enum { WIDTH = 48, HEIGHT = 37 };
    struct crop_options crop = crop_options_default(CROP_NONE);
    size_t bytes, turned_bytes;
    unsigned char *jpeg = test_render_jpeg(151, 103, 90, &bytes);
    for (unsigned orientation = 1; orientation <= 8; orientation++) {
        bool swap = orientation >= 5;
        unsigned char *turned = test_add_orientation(jpeg, bytes, orientation, &turned_bytes);
        uint8_t *seen = run_once(WIDTH, HEIGHT, crop, turned, turned_bytes, (struct image_key){0});
        uint8_t *upright = run_once(swap ? HEIGHT : WIDTH, swap ? WIDTH : HEIGHT, crop, jpeg, bytes,
                                    (struct image_key){0});
        for (uint32_t y = 0; y < HEIGHT; y++)
            for (uint32_t x = 0; x < WIDTH; x++)
                assert_memory_equal(seen + 3 * ((size_t)y * WIDTH + x),
                                    upright + 3 * stored_index(orientation, x, y, WIDTH, HEIGHT),
                                    3);
        free(turned);
        free(seen);
        free(upright);
    }
    free(jpeg);
}

static void crops_of_rotated_images_match_crops_of_upright_copies(void **state)
{
    (void)state;
    enum { SIDE = 64 };
    struct err err;
    struct crop_options crop = crop_options_default(CROP_RANDOM);
    struct image_pipeline *whole = open_pipeline(8, 8, crop);
    size_t bytes, turned_bytes;
    unsigned char *jpeg = test_render_jpeg(331, 203, 95, &bytes);
    for (unsigned orientation = 1; orientation <= 8; orientation++) {
        const uint8_t *pixels;
        uint32_t width, height;
        struct str copy = {0};
        unsigned char *turned = test_add_orientation(jpeg, bytes, orientation, &turned_bytes);
        assert_ok(image_pipeline_decode_whole(whole, turned, turned_bytes, NULL,
                                              (struct image_bounds){0}, &pixels, &width, &height,
                                              &err),
                  &err);
        assert_true(width == (orientation >= 5 ? 203 : 331) &&
                    height == (orientation >= 5 ? 331 : 203));
        assert_ok(jpeg_encode(pixels, width, height, 3 * (size_t)width, 97, 0, &copy, &err), &err);
        for (uint64_t sample = 0; sample < 8; sample++) {
            struct image_key key = {3, 0, 0, sample};
            uint8_t *a = run_once(SIDE, SIDE, crop, turned, turned_bytes, key);
            uint8_t *b = run_once(SIDE, SIDE, crop, (unsigned char *)copy.data, copy.bytes, key);
            double psnr = test_psnr(a, b, 3 * SIDE * SIDE);
            if (psnr < 35)
                fail_msg("orientation %u, sample %d: %.1f dB", orientation, (int)sample, psnr);
            free(a);
            free(b);
        }
        free(turned);
        str_deinit(&copy);
    }
    free(jpeg);
    image_pipeline_close(whole);
}

static void flip_mirrors_left_and_right(void **state)
{
    (void)state;
    enum { WIDTH = 50, HEIGHT = 40 };
    struct crop_options straight = crop_options_default(CROP_RANDOM), mirrored = straight;
    size_t bytes, turned_bytes, flips = 0;
    unsigned char *jpeg = test_render_jpeg(120, 90, 90, &bytes);
    straight.flip = false;
    for (unsigned orientation = 1; orientation <= 8; orientation++) {
        unsigned char *turned = test_add_orientation(jpeg, bytes, orientation, &turned_bytes);
        for (uint64_t sample = 0; sample < 6; sample++) {
            struct image_key key = {11, 0, 2, sample};
            bool flip = crop_choose(&mirrored, 120, 90, 11, 0, 2, sample).flip;
            uint8_t *a = run_once(WIDTH, HEIGHT, straight, turned, turned_bytes, key);
            uint8_t *b = run_once(WIDTH, HEIGHT, mirrored, turned, turned_bytes, key);
            for (size_t y = 0; y < HEIGHT; y++)
                for (size_t x = 0; x < WIDTH; x++)
                    assert_memory_equal(a + 3 * (y * WIDTH + x),
                                        b + 3 * (y * WIDTH + (flip ? WIDTH - 1 - x : x)), 3);
            flips += flip;
            free(a);
            free(b);
        }
        free(turned);
    }
    assert_true(flips >= 8 && flips <= 40);
    free(jpeg);
}

static void pixels_do_not_depend_on_earlier_images(void **state)
{
    (void)state;
    enum { SIDE = 96 };
    struct err err;
    struct test_files files = test_files_find("jpeg-variety/*");
    struct crop_options crop = crop_options_default(CROP_RANDOM);
    struct image_pipeline *reused = open_pipeline(SIDE, SIDE, crop);
    uint8_t *rgb = malloc(3 * SIDE * SIDE);
    assert_non_null(rgb);
    for (size_t k = 0; k < 2 * files.count; k++) {
        size_t i = k < files.count ? k : 2 * files.count - 1 - k, bytes;
        unsigned char *data = test_read_file(files.path[i], &bytes);
        struct image_key key = {5, 0, 0, i};
        uint8_t *fresh = run_once(SIDE, SIDE, crop, data, bytes, key);
        memset(rgb, 0xcc, 3 * SIDE * SIDE);
        assert_ok(image_pipeline_run(reused, data, bytes, files.path[i], key, rgb, 3 * SIDE, &err),
                  &err);
        assert_memory_equal(rgb, fresh, 3 * SIDE * SIDE);
        free(fresh);
        free(data);
    }
    free(rgb);
    image_pipeline_close(reused);
    test_files_free(&files);
}

static void rows_are_written_at_the_stride_with_gaps_untouched(void **state)
{
    (void)state;
    enum { WIDTH = 33, HEIGHT = 21, STRIDE = 128 };
    struct err err;
    size_t bytes;
    unsigned char *jpeg = test_render_jpeg(100, 100, 90, &bytes);
    struct crop_options crop = crop_options_default(CROP_CENTER);
    struct image_pipeline *pipeline = open_pipeline(WIDTH, HEIGHT, crop);
    uint8_t *packed = run_once(WIDTH, HEIGHT, crop, jpeg, bytes, (struct image_key){0}),
            apart[HEIGHT * STRIDE];
    memset(apart, 0xee, sizeof apart);
    assert_ok(
        image_pipeline_run(pipeline, jpeg, bytes, NULL, (struct image_key){0}, apart, STRIDE, &err),
        &err);
    for (size_t y = 0; y < HEIGHT; y++) {
        assert_memory_equal(apart + y * STRIDE, packed + y * 3 * WIDTH, 3 * WIDTH);
        for (size_t x = 3 * WIDTH; x < STRIDE; x++)
            assert_int_equal(apart[y * STRIDE + x], 0xee);
    }
    free(packed);
    free(jpeg);
    image_pipeline_close(pipeline);
}

static void whole_images_keep_their_shape(void **state)
{
    (void)state;
    static const struct {
        uint32_t width, height, side_max, wanted_width, wanted_height;
    } cases[] = {{300, 200, 0, 300, 200}, {300, 200, 512, 300, 200}, {300, 200, 150, 150, 100},
                 {1, 400, 100, 1, 100},   {400, 301, 7, 7, 5},       {16, 16, 1, 1, 1}};
    struct err err;
    struct image_pipeline *pipeline = open_pipeline(8, 8, crop_options_default(CROP_NONE));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint8_t *rgb;
        uint32_t width, height;
        size_t bytes;
        unsigned char *jpeg = test_render_jpeg(cases[i].width, cases[i].height, 90, &bytes);
        assert_ok(image_pipeline_decode_whole(pipeline, jpeg, bytes, NULL,
                                              (struct image_bounds){cases[i].side_max}, &rgb,
                                              &width, &height, &err),
                  &err);
        assert_int_equal(width, cases[i].wanted_width);
        assert_int_equal(height, cases[i].wanted_height);
        /* decode_whole checks the file to its end; a crop of the upper rows does not */
        assert_int_equal(image_pipeline_decode_whole(pipeline, jpeg, bytes - 2, NULL,
                                                     (struct image_bounds){0}, &rgb, &width,
                                                     &height, &err),
                         -EBADMSG);
        free(jpeg);
    }
    image_pipeline_close(pipeline);
}

static void tile_widths_are_whole_segments(void **state)
{
    (void)state;
    static const uint32_t cases[][5] = {/* width, height, side_max; wanted width, height */
                                        {300, 200, 0, 300, 200},   {300, 200, 300, 300, 200},
                                        {300, 200, 208, 208, 139}, {400, 300, 270, 256, 192},
                                        {300, 400, 360, 256, 341}, {300, 40, 16, 16, 2}};
    struct err err;
    struct image_pipeline *pipeline = open_pipeline(8, 8, crop_options_default(CROP_NONE));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint8_t *rgb;
        uint32_t width, height;
        size_t bytes;
        unsigned char *jpeg = test_render_jpeg(cases[i][0], cases[i][1], 90, &bytes);
        struct image_bounds bounds = {.side_max = cases[i][2], .tile_aligned = true};
        assert_ok(image_pipeline_decode_whole(pipeline, jpeg, bytes, NULL, bounds, &rgb, &width,
                                              &height, &err),
                  &err);
        assert_int_equal(width, cases[i][3]);
        assert_int_equal(height, cases[i][4]);
        free(jpeg);
    }
    image_pipeline_close(pipeline);
}

static void invalid_sizes_are_refused(void **state)
{
    (void)state;
    struct err err;
    struct image_pipeline *pipeline;
    struct image_options options = {0, 10, crop_options_default(CROP_NONE)};
    assert_int_equal(image_pipeline_open(&options, &pipeline, &err), -EINVAL);
    options.width = 4097;
    assert_int_equal(image_pipeline_open(&options, &pipeline, &err), -EINVAL);
}

/* The limit applies to the stored image, regardless of the output size. */
static void an_image_with_too_many_pixels_is_refused_before_decoding(void **state)
{
    (void)state;
    struct err err;
    size_t bytes;
    unsigned char *photo = test_render_jpeg(120, 100, 80, &bytes);
    struct image_options options = {16, 16, crop_options_default(CROP_CENTER)};
    uint8_t rgb[3 * 16 * 16];
    for (int fits = 0; fits < 2; fits++) {
        struct image_pipeline *pipeline;
        options.pixels_max = 120 * 100 - 1 + (uint64_t)fits;
        assert_ok(image_pipeline_open(&options, &pipeline, &err), &err);
        int status = image_pipeline_run(pipeline, photo, bytes, "a.jpg", (struct image_key){0}, rgb,
                                        48, &err);
        assert_int_equal(status, fits ? 0 : -EBADMSG);
        if (!fits) {
            assert_string_equal(err.expected, "at most 11999");
            assert_string_equal(err.found, "120 x 100 = 12000");
            assert_non_null(strstr(err.advice, "max_pixels"));
        }
        image_pipeline_close(pipeline);
    }
    struct image_rows rows = {.width = 120, .height = 100};
    options.pixels_max = 120 * 100 - 1;
    assert_false(image_find_rows(&options, (struct image_key){0}, &rows));
    options.pixels_max++;
    assert_true(image_find_rows(&options, (struct image_key){0}, &rows));
    free(photo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_orientation_equals_rotating_the_upright_result),
        cmocka_unit_test(crops_of_rotated_images_match_crops_of_upright_copies),
        cmocka_unit_test(flip_mirrors_left_and_right),
        cmocka_unit_test(an_image_with_too_many_pixels_is_refused_before_decoding),
        cmocka_unit_test(pixels_do_not_depend_on_earlier_images),
        cmocka_unit_test(rows_are_written_at_the_stride_with_gaps_untouched),
        cmocka_unit_test(whole_images_keep_their_shape),
        cmocka_unit_test(tile_widths_are_whole_segments),
        cmocka_unit_test(invalid_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
