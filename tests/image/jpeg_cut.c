/*
 * jpeg_cut — parts cut out of the compressed bytes equal those of the whole image, for all kinds of
 * images. An image that cannot be cut is decoded from the start. Wrong markers are detected where
 * they matter.
 */
#include "image/jpeg/jpeg_cut.h"

#include "base/bytes.h"
#include "base/philox.h"
#include "image/jpeg/jpeg_tile.h"
#include "image/pipeline/pipeline.h"
#include "tests/image/fixtures.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct image_rect random_part(uint32_t width, uint32_t height, uint64_t number)
{
    struct philox_block random = philox(20, (uint32_t)number, (uint32_t)(number >> 32));
    struct image_rect part = {.x = random.word[0] % width, .y = random.word[1] % height};
    part.width = 1 + random.word[2] % (width - part.x);
    part.height = 1 + random.word[3] % (height - part.y);
    return part;
}

/* The area that is decoded for a part: the segments that can be cut out, or else the whole
 * image. */
static struct image_rect decoded_area(const void *data, size_t bytes, struct image_rect whole,
                                      struct image_rect part, bool *ret_cut)
{
    struct jpeg_headers headers;
    struct jpeg_cut_grid grid;
    struct str cut = {0};
    struct image_rect segments = whole;
    *ret_cut = jpeg_read_headers(data, bytes, bytes, NULL, &headers, NULL) == 0 &&
               jpeg_cut_grid_of(&headers, &grid);
    if (*ret_cut) {
        segments = jpeg_cut_align(&grid, part);
        bool is_a_start = segments.x == 0 && segments.y == 0 && segments.width == whole.width;
        *ret_cut = !is_a_start && jpeg_cut(data, bytes, &headers, &grid, segments, &cut) == 0;
    }
    str_deinit(&cut);
    return *ret_cut ? segments : whole;
}

/* Checks that the planes hold exactly this rect; rows may have alignment padding. */
static void check_decoded(const struct jpeg_planes *planes, struct image_rect decoded)
{
    enum { ALIGNMENT_BYTES = 64 };
    for (uint32_t i = 0; i < planes->count; i++) {
        const struct jpeg_plane *plane = &planes->plane[i];
        size_t width = bytes_divide_up((uint64_t)decoded.width * plane->x_num, plane->x_den);
        assert_int_equal(plane->left, (uint64_t)decoded.x * plane->x_num / plane->x_den);
        assert_int_equal(plane->top, (uint64_t)decoded.y * plane->y_num / plane->y_den);
        assert_in_range(plane->stride_bytes, width, width + ALIGNMENT_BYTES - 1);
    }
}

/* Compares count random parts of a file with the whole. Checks that every part that can be cut is
 * cut; returns the number of such parts. */
static size_t compare_parts(const void *data, size_t bytes, const void *original,
                            size_t original_bytes, size_t count, const char *name)
{
    struct jpeg_decoder *full = test_open_decoder(), *some = test_open_decoder();
    jpeg_decoder_use_libjpeg(some);
    struct jpeg_planes whole, parts;
    struct jpeg_info info;
    struct err err;
    size_t cut_count = 0;
    assert_ok(jpeg_decode(full, original, original_bytes, name, &whole, &err), &err);
    for (size_t i = 0; i < count; i++) {
        struct image_rect part = random_part(whole.width, whole.height, bytes + i);
        assert_ok(jpeg_decode_begin(some, data, bytes, name, &info, &err), &err);
        assert_ok(jpeg_decode_part(some, &part, &parts, &err), &err);
        test_compare_region(&whole, &parts, part, name);
        bool cut;
        check_decoded(&parts, decoded_area(data, bytes,
                                           (struct image_rect){0, 0, whole.width, whole.height},
                                           part, &cut));
        cut_count += cut;
    }
    jpeg_decoder_close(full);
    jpeg_decoder_close(some);
    return cut_count;
}

/* Tiles every step-th file and cuts it. Returns the number of files that could be cut. */
static size_t tile_and_cut(const struct test_files *files, size_t step, size_t parts)
{
    size_t cut_files = 0;
    for (size_t i = 0; i < files->count; i += step) {
        struct err err;
        struct str tiled = {0};
        size_t bytes;
        bool is_tiled;
        unsigned char *data = test_read_file(files->path[i], &bytes);
        assert_ok(jpeg_tile(data, bytes, files->path[i], &tiled, &is_tiled, &err), &err);
        if (!is_tiled)
            str_add(&tiled, data, bytes);
        size_t cut = compare_parts(tiled.data, tiled.bytes, data, bytes, parts,
                                   test_file_name(files->path[i]));
        cut_files += cut > 0;
        free(data);
        str_deinit(&tiled);
    }
    return cut_files;
}

static void cuts_of_every_kind_of_file_match_the_whole_image(void **state)
{
    (void)state;
    struct test_files files = test_files_find("jpeg-variety/*");
    /* CMYK files, and files with one segment per row, cannot be cut */
    assert_true(tile_and_cut(&files, 1, 30) >= 40);
    test_files_free(&files);
}

static void cuts_of_photos_match_the_whole_image(void **state)
{
    (void)state;
    struct test_files files = test_files_find("clothing/validation/*/*.jpg");
    size_t step = test_is_sanitized() ? 40 : 8;
    assert_int_equal(tile_and_cut(&files, step, 20), (files.count + step - 1) / step);
    test_files_free(&files);
}

static void every_restart_interval_that_divides_a_row_is_supported(void **state)
{
    (void)state;
    static const struct {
        uint32_t width, height, interval;
        bool cut;
    } cases[] = {{192, 100, 1, true},   {192, 100, 2, true},   {192, 100, 3, true},
                 {192, 100, 4, true},   {192, 100, 12, true},  {185, 97, 6, true},
                 {192, 100, 5, false},  {192, 100, 24, false}, {192, 100, 0, false},
                 {16 * 23, 49, 1, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err;
        struct str jpeg = {0};
        struct jpeg_headers headers;
        struct jpeg_cut_grid grid;
        uint32_t width = cases[i].width, height = cases[i].height, interval = cases[i].interval;
        uint8_t *rgb = test_render_rgb(width, height);
        assert_ok(jpeg_encode(rgb, width, height, 3 * (size_t)width, 85, interval, &jpeg, &err),
                  &err);
        assert_ok(jpeg_read_headers(jpeg.data, jpeg.bytes, jpeg.bytes, NULL, &headers, &err), &err);
        assert_int_equal(jpeg_cut_grid_of(&headers, &grid), cases[i].cut);
        size_t cut = compare_parts(jpeg.data, jpeg.bytes, jpeg.data, jpeg.bytes, 60, "rendered");
        assert_true(cases[i].cut ? cut > 20 : cut == 0);
        if (cases[i].cut) {
            assert_int_equal(grid.columns * interval, (width + 15) / 16);
            assert_int_equal(grid.rows, (height + 15) / 16);
        }
        free(rgb);
        str_deinit(&jpeg);
    }
}

static void a_part_is_widened_to_whole_segments(void **state)
{
    (void)state;
    struct jpeg_cut_grid grid = {.width = 185,
                                 .height = 97,
                                 .segment_width = 32,
                                 .segment_height = 16,
                                 .columns = 6,
                                 .rows = 7};
    static const struct image_rect cases[][2] = {
        {{0, 0, 1, 1}, {0, 0, 32, 16}},        {{31, 15, 2, 2}, {0, 0, 64, 32}},
        {{32, 16, 32, 16}, {32, 16, 32, 16}},  {{184, 96, 1, 1}, {160, 96, 25, 1}},
        {{0, 0, 185, 97}, {0, 0, 185, 97}},    {{63, 31, 97, 33}, {32, 16, 128, 48}},
        {{160, 80, 25, 17}, {160, 80, 25, 17}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct image_rect segments = jpeg_cut_align(&grid, cases[i][0]);
        assert_memory_equal(&segments, &cases[i][1], sizeof segments);
    }
}

/* The offset of the data of segment `number`; does not check marker types. */
static size_t find_segment(const unsigned char *data, size_t bytes, uint32_t number)
{
    struct jpeg_headers headers;
    assert_int_equal(jpeg_read_headers(data, bytes, bytes, NULL, &headers, NULL), 0);
    size_t at = headers.header_bytes;
    while (number > 0) {
        while (data[at] != 0xff || data[at + 1] == 0)
            at++;
        at += 2;
        number--;
    }
    return at;
}

/* 6 x 4 segments. */
enum { DAMAGED_SIDE = 192, DAMAGED_HEIGHT = 64, DAMAGED_COLUMNS = 6 };

static unsigned char *render_tiled(size_t *ret_bytes)
{
    struct err err;
    struct str jpeg = {0};
    uint8_t *rgb = test_render_rgb(DAMAGED_SIDE, DAMAGED_HEIGHT);
    assert_ok(jpeg_encode(rgb, DAMAGED_SIDE, DAMAGED_HEIGHT, 3 * DAMAGED_SIDE, 90, 2, &jpeg, &err),
              &err);
    free(rgb);
    *ret_bytes = jpeg.bytes;
    return (unsigned char *)jpeg.data;
}

static int decode_part_of(const void *data, size_t bytes, struct image_rect part, struct err *err)
{
    struct jpeg_decoder *decoder = test_open_decoder();
    struct jpeg_info info;
    struct jpeg_planes planes;
    assert_ok(jpeg_decode_begin(decoder, data, bytes, "damaged", &info, err), err);
    int status = jpeg_decode_part(decoder, &part, &planes, err);
    jpeg_decoder_close(decoder);
    return status;
}

static void data_lost_in_the_part_is_refused_with_its_offset(void **state)
{
    (void)state;
    struct err err;
    size_t bytes;
    unsigned char *data = render_tiled(&bytes);
    struct image_rect part = {40, 20, 20, 10}; /* column 1 of row 1 */
    size_t begin = find_segment(data, bytes, DAMAGED_COLUMNS + 1);
    size_t end = find_segment(data, bytes, DAMAGED_COLUMNS + 2);
    assert_true(end - begin > 20);
    assert_ok(decode_part_of(data, bytes, part, &err), &err);
    /* an early marker: the second half of the segment is missing */
    data[begin + (end - begin) / 2] = 0xff;
    data[begin + (end - begin) / 2 + 1] = data[end - 1];
    memmove(data + begin + (end - begin) / 2 + 2, data + end, bytes - end);
    size_t kept = bytes - (end - begin) + (end - begin) / 2 + 2;
    assert_int_equal(decode_part_of(data, kept, part, &err), -EBADMSG);
    assert_in_range(err.offset, begin, end + 600);
    free(data);
}

static void data_lost_outside_the_part_is_found_only_by_whole_decodes(void **state)
{
    (void)state;
    struct err err;
    struct jpeg_planes planes;
    size_t bytes;
    unsigned char *data = render_tiled(&bytes);
    struct jpeg_decoder *decoder = test_open_decoder();
    struct image_rect part = {40, 20, 20, 10};
    size_t begin = find_segment(data, bytes, 2), end = find_segment(data, bytes, 3);
    memset(data + begin, 0, end - begin - 2); /* codes that end before the marker */
    assert_ok(decode_part_of(data, bytes, part, &err), &err);
    /* one byte of the segment remains */
    memmove(data + begin + 1, data + end - 2, bytes - (end - 2));
    size_t kept = begin + 1 + bytes - (end - 2);
    assert_ok(decode_part_of(data, kept, part, &err), &err);
    assert_int_equal(jpeg_decode(decoder, data, kept, NULL, &planes, &err), -EBADMSG);
    jpeg_decoder_close(decoder);
    free(data);
}

static void markers_out_of_order_or_missing_are_refused(void **state)
{
    (void)state;
    struct err err;
    size_t bytes;
    struct image_rect part = {40, 20, 20, 10}, above = {40, 2, 20, 10};
    unsigned char *data = render_tiled(&bytes);
    size_t at = find_segment(data, bytes, 4);
    data[at - 1] ^= 4; /* RST3 becomes RST7 */
    assert_int_equal(decode_part_of(data, bytes, part, &err), -EBADMSG);
    assert_in_range(err.offset, at - 600, at + 600);
    assert_ok(decode_part_of(data, bytes, above, &err), &err); /* the marker is outside the part */
    data[at - 1] ^= 4;
    data[at - 1] = 0xd9; /* end of image */
    assert_int_equal(decode_part_of(data, bytes, part, &err), -EBADMSG);
    data[at - 1] = 0xd3;
    data[at - 2] = 0xfe; /* not a marker */
    assert_int_equal(decode_part_of(data, bytes, part, &err), -EBADMSG);
    free(data);
}

static void every_truncation_is_refused_or_outside_the_part(void **state)
{
    (void)state;
    struct err err;
    size_t bytes, ok = 0;
    unsigned char *data = render_tiled(&bytes);
    struct image_rect part = {40, 20, 20, 10};
    size_t header = find_segment(data, bytes, 0),
           end = find_segment(data, bytes, DAMAGED_COLUMNS + 2);
    for (size_t kept = header; kept < bytes; kept++) {
        unsigned char *cut = malloc(kept);
        assert_non_null(cut);
        memcpy(cut, data, kept);
        int status = decode_part_of(cut, kept, part, &err);
        assert_true(status == 0 || status == -EBADMSG);
        assert_true(status == 0 || kept < end);
        assert_true(status != 0 || kept >= end);
        ok += status == 0;
        free(cut);
    }
    assert_true(ok > 0);
    free(data);
}

static void a_rotated_tiled_photo_gives_the_originals_pixels(void **state)
{
    (void)state;
    enum { SIDE = 64 };
    struct err err;
    struct image_pipeline *pipeline;
    struct image_options options = {SIDE, SIDE, crop_options_default(CROP_RANDOM)};
    uint8_t a[3 * SIDE * SIDE], b[3 * SIDE * SIDE];
    size_t bytes, turned_bytes;
    unsigned char *jpeg = test_render_jpeg(331, 203, 90, &bytes);
    options.crop.flip = true;
    assert_ok(image_pipeline_open(&options, &pipeline, &err), &err);
    for (unsigned orientation = 1; orientation <= 8; orientation++) {
        struct str tiled = {0};
        bool is_tiled;
        unsigned char *turned = test_add_orientation(jpeg, bytes, orientation, &turned_bytes);
        assert_ok(jpeg_tile(turned, turned_bytes, NULL, &tiled, &is_tiled, &err), &err);
        assert_true(is_tiled);
        for (uint64_t sample = 0; sample < 30; sample++) {
            struct image_key key = {1, 0, 0, sample};
            assert_ok(
                image_pipeline_run(pipeline, turned, turned_bytes, NULL, key, a, 3 * SIDE, &err),
                &err);
            assert_ok(
                image_pipeline_run(pipeline, tiled.data, tiled.bytes, NULL, key, b, 3 * SIDE, &err),
                &err);
            assert_memory_equal(a, b, sizeof a);
        }
        str_deinit(&tiled);
        free(turned);
    }
    free(jpeg);
    image_pipeline_close(pipeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_of_every_kind_of_file_match_the_whole_image),
        cmocka_unit_test(cuts_of_photos_match_the_whole_image),
        cmocka_unit_test(every_restart_interval_that_divides_a_row_is_supported),
        cmocka_unit_test(a_part_is_widened_to_whole_segments),
        cmocka_unit_test(data_lost_in_the_part_is_refused_with_its_offset),
        cmocka_unit_test(data_lost_outside_the_part_is_found_only_by_whole_decodes),
        cmocka_unit_test(markers_out_of_order_or_missing_are_refused),
        cmocka_unit_test(every_truncation_is_refused_or_outside_the_part),
        cmocka_unit_test(a_rotated_tiled_photo_gives_the_originals_pixels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
