/*
 * jpeg_tile — a tiled file keeps the coefficients and metadata of its original, decodes to the same
 * pixels in other decoders, and can be cut; a file that cannot be tiled is kept.
 */
#include "image/jpeg/jpeg_tile.h"

#include "image/jpeg/jpeg_cut.h"
#include "tests/image/fixtures.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

/* Returns each component's quantization table and coefficients; malloc'ed. */
static void *read_coefficients(const void *data, size_t bytes, size_t *ret_bytes)
{
    struct jpeg_decompress_struct codec;
    struct jpeg_error_mgr errors;
    struct str out = {0};
    codec.err = jpeg_std_error(&errors);
    errors.trace_level = -1;
    jpeg_create_decompress(&codec);
    jpeg_mem_src(&codec, data, bytes);
    jpeg_read_header(&codec, TRUE);
    jvirt_barray_ptr *coefficients = jpeg_read_coefficients(&codec);
    str_add_format(&out, "%u x %u x %d\n", codec.image_width, codec.image_height,
                   codec.num_components);
    for (int i = 0; i < codec.num_components; i++) {
        jpeg_component_info *component = &codec.comp_info[i];
        str_add_format(&out, "component %d, %d x %d\n", component->component_id,
                       component->h_samp_factor, component->v_samp_factor);
        str_add(&out, component->quant_table->quantval, sizeof component->quant_table->quantval);
        for (JDIMENSION row = 0; row < component->height_in_blocks; row++) {
            JBLOCKARRAY blocks =
                codec.mem->access_virt_barray((j_common_ptr)&codec, coefficients[i], row, 1, FALSE);
            str_add(&out, blocks[0], component->width_in_blocks * sizeof(JBLOCK));
        }
    }
    jpeg_destroy_decompress(&codec);
    *ret_bytes = out.bytes;
    return out.data;
}

/* The APPn and comment segments before the first scan, concatenated. */
static struct str read_metadata(const unsigned char *data, size_t bytes)
{
    struct str out = {0};
    size_t at = 2;
    while (at + 4 <= bytes && data[at + 1] != 0xda) {
        if (data[at] != 0xff || data[at + 1] == 0xff || data[at + 1] == 0) {
            at++;
            continue;
        }
        size_t segment = 2 + ((size_t)data[at + 2] << 8 | data[at + 3]);
        if ((data[at + 1] >= 0xe0 && data[at + 1] <= 0xef) || data[at + 1] == 0xfe)
            str_add(&out, data + at, segment);
        at += segment;
    }
    return out;
}

static void check_same_content(const unsigned char *data, size_t bytes, const struct str *tiled,
                               const char *path)
{
    size_t a_bytes, b_bytes;
    void *a = read_coefficients(data, bytes, &a_bytes);
    void *b = read_coefficients(tiled->data, tiled->bytes, &b_bytes);
    if (a_bytes != b_bytes || memcmp(a, b, a_bytes))
        fail_msg("%s: coefficients differ", path);
    struct str before = read_metadata(data, bytes),
               after = read_metadata((unsigned char *)tiled->data, tiled->bytes);
    if (before.bytes != after.bytes ||
        (before.bytes > 0 && memcmp(before.data, after.data, before.bytes)))
        fail_msg("%s: metadata differs", path);
    free(a);
    free(b);
    str_deinit(&before);
    str_deinit(&after);
}

static void check_grid(const struct str *tiled, const char *path)
{
    struct err err;
    struct jpeg_headers headers;
    struct jpeg_cut_grid grid;
    assert_ok(jpeg_read_headers(tiled->data, tiled->bytes, tiled->bytes, path, &headers, &err),
              &err);
    if (!jpeg_cut_grid_of(&headers, &grid))
        fail_msg("%s cannot be cut", path);
}

static void coefficients_and_metadata_are_preserved(void **state)
{
    (void)state;
    struct test_files files = test_files_find("jpeg-variety/*");
    size_t kept = 0, progressive = 0;
    for (size_t i = 0; i < files.count; i++) {
        struct err err;
        struct str tiled = {0}, again = {0};
        struct jpeg_info info;
        size_t bytes;
        bool is_tiled, is_tiled_again;
        unsigned char *data = test_read_file(files.path[i], &bytes);
        assert_ok(jpeg_probe(data, bytes, files.path[i], &info, &err), &err);
        assert_ok(jpeg_tile(data, bytes, files.path[i], &tiled, &is_tiled, &err), &err);
        assert_true(is_tiled || info.color == JPEG_CMYK || info.color == JPEG_YCCK ||
                    info.restart_interval > 0);
        if (is_tiled) {
            check_same_content(data, bytes, &tiled, files.path[i]);
            check_grid(&tiled, files.path[i]);
            assert_ok(jpeg_tile(tiled.data, tiled.bytes, NULL, &again, &is_tiled_again, &err),
                      &err);
            assert_false(is_tiled_again);
            progressive += info.progressive;
        }
        kept += !is_tiled;
        assert_int_equal(is_tiled ? 0 : tiled.bytes, 0);
        str_deinit(&tiled);
        str_deinit(&again);
        free(data);
    }
    assert_true(kept >= 3 && progressive >= 8);
    test_files_free(&files);
}

static void djpeg_sees_the_same_pixels(void **state)
{
    (void)state;
    static const char *const codings[] = {
        "-sample 1x1",         "-sample 2x1",  "-sample 1x2", "-sample 4x1",
        "-sample 2x2,1x2,2x1", "-progressive", "-grayscale",  "-grayscale -sample 4x3",
        "-restart 4B",         "-rgb",         "-arithmetic", "-arithmetic -progressive"};
    static const uint32_t sides[][2] = {{1, 1}, {7, 40}, {100, 61}, {129, 33}};
    struct err err;
    char folder[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 20];
    if (test_run("command -v cjpeg >/dev/null && command -v djpeg >/dev/null"))
        test_skip("no cjpeg or djpeg here (libjpeg-turbo-progs)");
    test_make_folder(folder);
    for (size_t i = 0; i < 4 * sizeof codings / sizeof codings[0]; i++) {
        const uint32_t *side = sides[i % 4];
        uint8_t *rgb = test_render_rgb(side[0], side[1]);
        snprintf(path, sizeof path, "%s/a.ppm", folder);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        fprintf(file, "P6\n%u %u\n255\n", side[0], side[1]);
        assert_int_equal(fwrite(rgb, 3 * (size_t)side[0], side[1], file), side[1]);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(test_run("cd '%s' && cjpeg %s a.ppm >a.jpg", folder, codings[i / 4]), 0);
        snprintf(path, sizeof path, "%s/a.jpg", folder);
        struct str tiled = {0};
        bool is_tiled;
        size_t bytes;
        unsigned char *data = test_read_file(path, &bytes);
        assert_ok(jpeg_tile(data, bytes, codings[i / 4], &tiled, &is_tiled, &err), &err);
        if (!is_tiled)
            fail_msg("%s, %u x %u is not tiled", codings[i / 4], side[0], side[1]);
        check_grid(&tiled, codings[i / 4]);
        snprintf(path, sizeof path, "%s/b.jpg", folder);
        file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(tiled.data, tiled.bytes, 1, file), 1);
        assert_int_equal(fclose(file), 0);
        if (test_run("cd '%s' && djpeg a.jpg >a.pnm && djpeg b.jpg >b.pnm && cmp a.pnm b.pnm",
                     folder))
            fail_msg("%s, %u x %u: pixels differ", codings[i / 4], side[0], side[1]);
        free(data);
        free(rgb);
        str_deinit(&tiled);
    }
    test_remove_folder(folder);
}

static void segments_are_32_pixels_or_the_next_larger_divisor(void **state)
{
    (void)state;
    static const uint32_t cases[][3] = {
        {512, 16, 2}, {512, 8, 4},    {400, 16, 5},  {533, 16, 2},    {16, 16, 1},   {17, 16, 2},
        {1, 8, 1},    {48, 16, 3},    {368, 16, 23}, {512, 32, 1},    {96, 32, 1},   {40, 8, 5},
        {512, 24, 2}, {65500, 16, 2}, {160, 32, 1},  {7 * 16, 16, 7}, {35 * 8, 8, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(jpeg_tile_interval(cases[i][0], cases[i][1]), cases[i][2]);
}

static void widths_are_lowered_to_an_even_number_of_mcus(void **state)
{
    (void)state;
    static const uint32_t cases[][2] = {
        {1, 1},    {16, 16},   {17, 17},   {32, 32},   {33, 32},   {48, 48},   {75, 75},
        {100, 96}, {341, 341}, {360, 352}, {512, 512}, {513, 512}, {272, 256}, {65500, 65500}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(jpeg_tile_width(cases[i][0]), cases[i][1]);
}

static void tiling_refuses_the_files_that_decoding_refuses(void **state)
{
    (void)state;
    struct test_files files = test_files_find("jpeg-malformed/*");
    for (size_t i = 0; i < files.count; i++) {
        struct err err;
        struct str tiled = {0};
        size_t bytes;
        bool is_tiled = true;
        unsigned char *data = test_read_file(files.path[i], &bytes);
        assert_int_equal(jpeg_tile(data, bytes, files.path[i], &tiled, &is_tiled, &err), -EBADMSG);
        assert_false(is_tiled);
        assert_int_equal(tiled.bytes, 0);
        assert_true(err.offset >= 0);
        str_deinit(&tiled);
        free(data);
    }
    test_files_free(&files);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    struct err err;
    struct str tiled = {0};
    size_t bytes;
    bool is_tiled;
    unsigned char *data = test_render_jpeg(75, 53, 85, &bytes);
    for (size_t kept = 0; kept < bytes; kept++) {
        unsigned char *cut = malloc(kept + !kept);
        assert_non_null(cut);
        memcpy(cut, data, kept);
        assert_int_equal(jpeg_tile(cut, kept, NULL, &tiled, &is_tiled, &err), -EBADMSG);
        free(cut);
    }
    assert_ok(jpeg_tile(data, bytes, NULL, &tiled, &is_tiled, &err), &err);
    free(data);
    str_deinit(&tiled);
}

static void existing_output_is_appended_to(void **state)
{
    (void)state;
    struct err err;
    struct str tiled = {0}, alone = {0};
    size_t bytes;
    bool is_tiled;
    unsigned char *data = test_render_jpeg(120, 90, 85, &bytes);
    str_add_text(&tiled, "before");
    assert_ok(jpeg_tile(data, bytes, NULL, &tiled, &is_tiled, &err), &err);
    assert_ok(jpeg_tile(data, bytes, NULL, &alone, &is_tiled, &err), &err);
    assert_int_equal(tiled.bytes, 6 + alone.bytes);
    assert_memory_equal(tiled.data, "before", 6);
    assert_memory_equal(tiled.data + 6, alone.data, alone.bytes);
    str_deinit(&tiled);
    str_deinit(&alone);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coefficients_and_metadata_are_preserved),
        cmocka_unit_test(djpeg_sees_the_same_pixels),
        cmocka_unit_test(segments_are_32_pixels_or_the_next_larger_divisor),
        cmocka_unit_test(widths_are_lowered_to_an_even_number_of_mcus),
        cmocka_unit_test(tiling_refuses_the_files_that_decoding_refuses),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(existing_output_is_appended_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
