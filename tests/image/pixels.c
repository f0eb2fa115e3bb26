/*
 * pixels — PNG and WebP files of all kinds are compared with Pillow, and parts with the whole; PPM;
 * truncated, broken and oversized files are refused.
 */
#include "image/formats/pixels.h"

#include "base/bytes.h"
#include "base/philox.h"
#include "image/formats/png.h"
#include "image/formats/ppm.h"
#include "image/pipeline/check.h"
#include "image/pipeline/pipeline.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The files of pixels_cases.py, created once. */
struct cases {
    char folder[TEST_PATH_BYTES_MAX];
    char *list;
};

static struct cases make_cases(void)
{
    struct cases cases;
    char path[TEST_PATH_BYTES_MAX + 16];
    size_t bytes;
    const char *python = test_need_python("PIL");
    test_make_folder(cases.folder);
    assert_int_equal(test_run("'%s' -W ignore '%s/tests/image/pixels_cases.py' '%s' >'%s/list'",
                              python, TEST_SOURCE_DIR, cases.folder, cases.folder),
                     0);
    snprintf(path, sizeof path, "%s/list", cases.folder);
    char *list = (char *)test_read_file(path, &bytes);
    cases.list = strndup(list, bytes);
    assert_non_null(cases.list);
    free(list);
    return cases;
}

static unsigned char *read_case(const struct cases *cases, const char *name, const char *suffix,
                                size_t *ret_bytes)
{
    char path[2 * TEST_PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/%s%s", cases->folder, name, suffix);
    return test_read_file(path, ret_bytes);
}

static void remove_cases(struct cases *cases)
{
    test_remove_folder(cases->folder);
    free(cases->list);
}

static struct image_pipeline *open_pipeline(enum crop_kind kind, uint32_t side)
{
    struct err err;
    struct image_pipeline *pipeline;
    struct image_options options = {side, side, crop_options_default(kind)};
    assert_ok(image_pipeline_open(&options, &pipeline, &err), &err);
    return pipeline;
}

static void files_of_all_kinds_match_pillow(void **state)
{
    (void)state;
    struct cases cases = make_cases();
    struct image_pipeline *pipeline = open_pipeline(CROP_NONE, 8);
    char name[80];
    unsigned width, height, count = 0;
    int used;
    for (const char *at = cases.list;
         sscanf(at, "%79s %u %u\n%n", name, &width, &height, &used) == 3; at += used) {
        struct err err;
        size_t bytes, wanted_bytes;
        const uint8_t *rgb;
        uint32_t our_width, our_height;
        unsigned char *data = read_case(&cases, name, "", &bytes);
        unsigned char *wanted = read_case(&cases, name, ".rgb", &wanted_bytes);
        assert_ok(image_pipeline_decode_whole(pipeline, data, bytes, name, (struct image_bounds){0},
                                              &rgb, &our_width, &our_height, &err),
                  &err);
        if (our_width != width || our_height != height ||
            wanted_bytes != (size_t)3 * width * height)
            fail_msg("%s: %u x %u", name, our_width, our_height);
        if (memcmp(rgb, wanted, wanted_bytes))
            fail_msg("%s: pixels differ", name);
        free(data);
        free(wanted);
        count++;
    }
    assert_true(count > 35);
    image_pipeline_close(pipeline);
    remove_cases(&cases);
}

static void check_regions(struct pixels_decoder *decoder, const char *name,
                          const unsigned char *data, size_t bytes)
{
    struct err err;
    struct pixels_info info;
    struct pixels pixels;
    enum image_kind kind = image_kind_of(data, bytes);
    assert_ok(pixels_begin(decoder, kind, data, bytes, name, &info, &err), &err);
    assert_ok(pixels_decode_region(decoder, NULL, &pixels, &err), &err);
    size_t row_bytes = (size_t)info.width * info.channels;
    uint8_t *whole = malloc(row_bytes * info.height);
    assert_non_null(whole);
    for (uint32_t y = 0; y < info.height; y++)
        memcpy(whole + y * row_bytes, pixels.data + y * pixels.stride_bytes, row_bytes);
    for (uint64_t i = 0; i < 30; i++) {
        struct philox_block draw = philox(1, 0, i);
        struct image_rect want = {.x = draw.word[0] % info.width, .y = draw.word[1] % info.height};
        want.width = 1 + draw.word[2] % (info.width - want.x);
        want.height = 1 + draw.word[3] % (info.height - want.y);
        assert_ok(pixels_begin(decoder, kind, data, bytes, name, &info, &err), &err);
        assert_ok(pixels_decode_region(decoder, &want, &pixels, &err), &err);
        const struct image_rect *got = &pixels.region;
        assert_true(got->x <= want.x && got->y <= want.y &&
                    got->x + got->width >= want.x + want.width &&
                    got->y + got->height >= want.y + want.height);
        for (uint32_t y = want.y; y < want.y + want.height; y++)
            if (memcmp(pixels.data + (y - got->y) * pixels.stride_bytes +
                           (want.x - got->x) * info.channels,
                       whole + y * row_bytes + want.x * info.channels, want.width * info.channels))
                fail_msg("%s: row %u of %u,%u %u x %u differs", name, y, want.x, want.y, want.width,
                         want.height);
    }
    free(whole);
}

static void decoded_parts_equal_the_whole_image(void **state)
{
    (void)state;
    struct cases cases = make_cases();
    struct pixels_decoder *decoder;
    struct err err;
    char name[80];
    unsigned width, height;
    int used;
    assert_ok(pixels_decoder_open(&decoder, &err), &err);
    for (const char *at = cases.list;
         sscanf(at, "%79s %u %u\n%n", name, &width, &height, &used) == 3; at += used) {
        size_t bytes;
        unsigned char *data = read_case(&cases, name, "", &bytes);
        check_regions(decoder, name, data, bytes);
        free(data);
    }
    pixels_decoder_close(decoder);
    remove_cases(&cases);
}

static void broken_files_are_refused(void **state)
{
    (void)state;
    struct cases cases = make_cases();
    struct image_checker *checker;
    struct err err;
    unsigned count = 0;
    assert_ok(image_checker_open(&checker, &err), &err);
    for (const char *at = strchr(cases.list, '!'); at && *at; at = strchr(at + 1, '!')) {
        char name[80];
        size_t bytes;
        assert_int_equal(sscanf(at, "! %79s", name), 1);
        unsigned char *data = read_case(&cases, name, "", &bytes);
        if (image_check(checker, data, bytes, name, &err) != -EBADMSG)
            fail_msg("%s was not refused", name);
        assert_string_equal(err.path, name);
        assert_true(err.found[0] && err.advice[0]);
        free(data);
        count++;
    }
    assert_true(count >= 7);
    image_checker_close(checker);
    remove_cases(&cases);
}

static void non_images_are_reported_as_such(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        bool begins_as_jpeg;
    } cases[] = {
        {"GIF89a\x01\x01\x80\x02\x02\x4c\x01", false},
        {"\x89PNG\n\x1a\n, as a text", false},
        {"", false},
        {"\xff", false},
        {"\xff\xd8", true},
        {"\xff\xd8 and nothing else", true},
    };
    struct image_pipeline *pipeline = open_pipeline(CROP_CENTER, 8);
    struct image_checker *checker;
    struct err err;
    uint8_t rgb[3 * 8 * 8];
    assert_ok(image_checker_open(&checker, &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t bytes = strlen(cases[i].data);
        for (int way = 0; way < 2; way++) {
            struct image_key key = {0};
            assert_int_equal(way ? image_check(checker, cases[i].data, bytes, "a.png", &err)
                                 : image_pipeline_run(pipeline, cases[i].data, bytes, "a.png", key,
                                                      rgb, 3 * 8, &err),
                             -EBADMSG);
            bool is_jpeg = cases[i].begins_as_jpeg;
            assert_string_equal(err.what,
                                is_jpeg ? "JPEG cannot be decoded" : "image cannot be decoded");
            assert_int_equal(strcmp(err.found, "it is not a JPEG, PNG, WebP or PPM") != 0, is_jpeg);
            assert_string_equal(err.path, "a.png");
        }
    }
    image_checker_close(checker);
    image_pipeline_close(pipeline);
}

static void truncated_files_are_refused(void **state)
{
    (void)state;
    enum { END_BYTES = 12 }; /* the size of the IEND chunk, which has no data */
    struct cases cases = make_cases();
    struct image_checker *checker;
    struct err err;
    assert_ok(image_checker_open(&checker, &err), &err);
    static const char *const names[] = {"png-2-8-rows.png", "png-3-4-adam7.png", "png-exif-6.png"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t bytes;
        unsigned char *data = read_case(&cases, names[i], "", &bytes);
        for (size_t cut = 0; cut < bytes; cut++) {
            /* exact size, so that a sanitizer detects overreads */
            unsigned char *part = malloc(cut + 1);
            assert_non_null(part);
            memcpy(part, data, cut);
            bool only_the_end_is_cut = bytes - cut < END_BYTES;
            int status = image_check(checker, part, cut, names[i], &err);
            if (status != -EBADMSG && !(status == 0 && only_the_end_is_cut))
                fail_msg("%s of %zu bytes was not refused", names[i], cut);
            free(part);
        }
        free(data);
    }
    image_checker_close(checker);
    remove_cases(&cases);
}

static void ppm_is_read_in_place(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        uint32_t width, height; /* 0: refused */
    } cases[] = {
        {"P6\n3 2\n255\n", 3, 2},
        {"P6 3 2 255 ", 3, 2},
        {"P6\n# by a camera\n3\t2\r\n255\n", 3, 2},
        {"P6\n# CREATOR: XV Version 3.10a-jumboFix+Enh of 20070520\n3 2\n255\n", 3, 2},
        {"P6\n# CREATOR: GIMP PNM Filter Version 1.1\n3 2\n# of layer 1\n# and no other\n255\n", 3,
         2},
        {"P6\n3 2\n65535\n", 0, 0},
        {"P6\n3 2\n254\n", 0, 0},
        {"P6\n0 2\n255\n", 0, 0},
        {"P6\n3 3\n255\n", 0, 0},
        {"P6\n3 -2\n255\n", 0, 0},
        {"P6\n99999999 2\n255\n", 0, 0},
        {"P6\n4294967299 2\n255\n", 0, 0},
        {"P6\n3 2\n255", 0, 0},
        {"P6\n3 2", 0, 0},
        {"P6\n32 55\n", 0, 0},
        {"P6#", 0, 0},
        {"P6\n3#2\n255\n", 0, 0},
    };
    struct pixels_decoder *decoder;
    struct err err;
    assert_ok(pixels_decoder_open(&decoder, &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pixels_info info;
        struct pixels pixels;
        size_t header_bytes = strlen(cases[i].header), bytes = header_bytes + 18;
        uint8_t *data = malloc(bytes);
        assert_non_null(data);
        memcpy(data, cases[i].header, header_bytes);
        for (uint8_t k = 0; k < 18; k++)
            data[header_bytes + k] = (uint8_t)(k + 'a');
        int status = pixels_begin(decoder, IMAGE_PPM, data, bytes, "a.ppm", &info, &err);
        if (status != (cases[i].width ? 0 : -EBADMSG))
            fail_msg("case %zu: %d", i, status);
        if (!status) {
            assert_true(info.width == cases[i].width && info.height == cases[i].height &&
                        info.channels == 3);
            assert_ok(pixels_decode_region(decoder, NULL, &pixels, &err), &err);
            assert_ptr_equal(pixels.data, data + header_bytes);
        }
        free(data);
    }
    pixels_decoder_close(decoder);
}

static int begin_with_comment(struct pixels_decoder *decoder, size_t header_bytes, struct err *err)
{
    static const char end[] = "\n3 2\n255\n";
    size_t end_bytes = strlen(end), bytes = header_bytes + 18;
    struct pixels_info info;
    char *data = malloc(bytes);
    assert_non_null(data);
    memset(data, 'x', bytes);
    memcpy(data, "P6\n#", 4);
    memcpy(data + header_bytes - end_bytes, end, end_bytes);
    int status = pixels_begin(decoder, IMAGE_PPM, data, bytes, "a.ppm", &info, err);
    free(data);
    return status;
}

static void an_oversized_ppm_header_is_reported(void **state)
{
    (void)state;
    struct pixels_decoder *decoder;
    struct err err;
    assert_ok(pixels_decoder_open(&decoder, &err), &err);
    assert_ok(begin_with_comment(decoder, PPM_HEADER_READ_BYTES_MAX, &err), &err);
    for (size_t more = 1; more < 40; more++) {
        assert_int_equal(begin_with_comment(decoder, PPM_HEADER_READ_BYTES_MAX + more, &err),
                         -EBADMSG);
        assert_string_equal(err.found, "its header is too long");
        assert_non_null(strstr(err.expected, "4096 bytes"));
        assert_int_equal(err.offset, PPM_HEADER_READ_BYTES_MAX);
    }
    pixels_decoder_close(decoder);
}

static void a_ppm_crop_equals_the_png_crop(void **state)
{
    (void)state;
    enum { SIDE = 40 };
    struct cases cases = make_cases();
    struct image_pipeline *pipeline = open_pipeline(CROP_RANDOM, SIDE);
    struct err err;
    size_t bytes, rgb_bytes;
    static uint8_t from_png[3 * SIDE * SIDE], from_ppm[3 * SIDE * SIDE];
    char header[PPM_HEADER_BYTES_MAX];
    unsigned char *png = read_case(&cases, "png-6-8-adam7.png", "", &bytes);
    unsigned char *rgb = read_case(&cases, "png-6-8-adam7.png", ".rgb", &rgb_bytes);
    size_t header_bytes = ppm_write_header(header, 37, 23);
    uint8_t *ppm = malloc(header_bytes + rgb_bytes);
    assert_non_null(ppm);
    memcpy(ppm, header, header_bytes);
    memcpy(ppm + header_bytes, rgb, rgb_bytes);
    for (uint64_t sample = 0; sample < 20; sample++) {
        struct image_key key = {5, 0, 1, sample};
        assert_ok(image_pipeline_run(pipeline, png, bytes, "a.png", key, from_png, 3 * SIDE, &err),
                  &err);
        assert_ok(image_pipeline_run(pipeline, ppm, header_bytes + rgb_bytes, "a.ppm", key,
                                     from_ppm, 3 * SIDE, &err),
                  &err);
        assert_memory_equal(from_png, from_ppm, sizeof from_png);
    }
    free(png);
    free(rgb);
    free(ppm);
    image_pipeline_close(pipeline);
    remove_cases(&cases);
}

/* Masks of any depth keep their numbers; other colors are no masks. */
static void masks_are_as_stored(void **state)
{
    (void)state;
    static const int colors[][2] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {3, 1},
                                    {3, 2}, {3, 4}, {3, 8}, {2, 8}, {4, 16}, {6, 8}};
    enum { WIDTH = 37, HEIGHT = 23 };
    struct cases cases = make_cases();
    for (size_t i = 0; i < 4 * sizeof colors / sizeof colors[0]; i++) {
        const int *color = colors[i / 4];
        bool is_mask = color[0] == 0 || color[0] == 3;
        struct image_rect part = {0, 5, WIDTH, 11};
        char name[64];
        size_t bytes, wanted_bytes;
        struct png_decoder decoder = {0};
        struct pixels_memory memory = {0};
        struct pixels_info info;
        struct image_mask mask;
        struct err err;
        snprintf(name, sizeof name, "png-%d-%d-%s.png", color[0], color[1],
                 i & 1 ? "adam7" : "rows");
        unsigned char *data = read_case(&cases, name, "", &bytes),
                      *wanted = read_case(&cases, name, ".u16", &wanted_bytes);
        assert_int_equal(wanted_bytes, 2 * WIDTH * HEIGHT);
        assert_ok(png_begin(&decoder, data, bytes, name, &info, &err), &err);
        int status = png_decode_mask(&decoder, i & 2 ? &part : NULL, &memory, &mask, &err);
        assert_int_equal(status, is_mask ? 0 : -EBADMSG);
        uint32_t rows = i & 2 && !(i & 1) ? part.height : HEIGHT;
        if (is_mask) {
            assert_int_equal(mask.value_bytes, color[1] == 16 ? 2 : 1);
            assert_int_equal(mask.first_row, rows == HEIGHT ? 0 : part.y);
        }
        for (uint32_t at = 0; is_mask && at < rows * WIDTH; at++) {
            const uint8_t *row = mask.data + at / WIDTH * mask.stride_bytes;
            uint32_t value =
                mask.value_bytes == 1 ? row[at % WIDTH] : bytes_get_u16(row + 2 * (at % WIDTH));
            assert_int_equal(value, bytes_get_u16(wanted + 2 * (at + mask.first_row * WIDTH)));
        }
        assert_null(decoder.codec);
        free(memory.data);
        free(data);
        free(wanted);
    }
    remove_cases(&cases);
}

/* Also with one color, and a single pixel; twice, for the same bytes. */
static void palette_images_have_their_indexes_and_colors(void **state)
{
    (void)state;
    enum { WIDTH = 300, HEIGHT = 7 };
    static uint8_t indexes[WIDTH * HEIGHT], rgba[256][4];
    const uint32_t shapes[][3] = {{WIDTH, HEIGHT, 256}, {WIDTH, HEIGHT, 3}, {1, 1, 1}};
    for (int i = 0; i < 256; i++)
        memcpy(rgba[i], (const uint8_t[]){(uint8_t)(3 * i), (uint8_t)i, 7, (uint8_t)(255 - i)}, 4);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const uint32_t width = shapes[i][0], height = shapes[i][1];
        struct png_decoder decoder = {0};
        struct pixels_memory memory = {0};
        struct pixels_info info;
        struct pixels pixels;
        struct image_mask mask;
        struct str png = {0}, again = {0};
        struct err err;
        for (uint32_t at = 0; at < width * height; at++)
            indexes[at] = (uint8_t)(at * 7 % shapes[i][2]);
        const uint8_t(*colors)[4] = (const uint8_t(*)[4])rgba;
        assert_ok(png_encode_palette(indexes, width, height, colors, shapes[i][2], &png, &err),
                  &err);
        assert_ok(png_encode_palette(indexes, width, height, colors, shapes[i][2], &again, &err),
                  &err);
        assert_int_equal(png.bytes, again.bytes);
        assert_memory_equal(png.data, again.data, png.bytes);
        assert_ok(png_begin(&decoder, png.data, png.bytes, "", &info, &err), &err);
        assert_int_equal(info.width, width);
        assert_int_equal(info.height, height);
        assert_ok(png_decode_mask(&decoder, NULL, &memory, &mask, &err), &err);
        assert_memory_equal(mask.data, indexes, (size_t)width * height);
        assert_ok(png_begin(&decoder, png.data, png.bytes, "", &info, &err), &err);
        assert_ok(png_decode_region(&decoder, NULL, &memory, &pixels, &err), &err);
        for (uint32_t at = 0; at < width * height; at++)
            assert_memory_equal(pixels.data + 3 * at, rgba[indexes[at]], 3);
        free(memory.data);
        str_deinit(&png);
        str_deinit(&again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_all_kinds_match_pillow),
        cmocka_unit_test(decoded_parts_equal_the_whole_image),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(non_images_are_reported_as_such),
        cmocka_unit_test(truncated_files_are_refused),
        cmocka_unit_test(ppm_is_read_in_place),
        cmocka_unit_test(an_oversized_ppm_header_is_reported),
        cmocka_unit_test(a_ppm_crop_equals_the_png_crop),
        cmocka_unit_test(masks_are_as_stored),
        cmocka_unit_test(palette_images_have_their_indexes_and_colors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
