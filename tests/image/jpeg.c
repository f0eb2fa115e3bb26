/*
 * jpeg — real JPEGs of all kinds decode to djpeg's luma, broken ones are refused with the offset,
 * partial decodes equal parts of the full decode, and files do not affect each other.
 */
#include "image/jpeg/jpeg.h"

#include "tests/image/fixtures.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void every_malformed_file_is_refused_with_an_offset(void **state)
{
    (void)state;
    struct test_files files = test_files_find("jpeg-malformed/*");
    struct jpeg_decoder *decoder = test_open_decoder();
    assert_int_equal(files.count, 38);
    for (size_t i = 0; i < files.count; i++) {
        struct err err = {0};
        struct jpeg_planes planes = {.width = 12345};
        size_t bytes;
        unsigned char *data = test_read_file(files.path[i], &bytes);
        int status = jpeg_decode(decoder, data, bytes, files.path[i], &planes, &err);
        if (status != -EBADMSG || err.code != -EBADMSG)
            fail_msg("%s: %d", test_file_name(files.path[i]), status);
        assert_in_range(err.offset, 0, bytes);
        assert_string_equal(err.path, files.path[i]);
        assert_true(err.what[0] && err.found[0] && err.advice[0]);
        /* outputs are written on success only */
        assert_int_equal(planes.width, 12345);
        free(data);
    }
    jpeg_decoder_close(decoder);
    test_files_free(&files);
}

static void every_valid_file_is_accepted(void **state)
{
    (void)state;
    struct test_files files = test_files_find("jpeg-variety/*");
    struct jpeg_decoder *decoder = test_open_decoder();
    uint32_t warnings = 0;
    assert_int_equal(files.count, 65);
    for (size_t i = 0; i < files.count; i++) {
        struct err err;
        struct jpeg_planes planes;
        struct jpeg_info info;
        size_t bytes;
        unsigned char *data = test_read_file(files.path[i], &bytes);
        assert_ok(jpeg_probe(data, bytes, files.path[i], &info, &err), &err);
        assert_ok(jpeg_decode(decoder, data, bytes, files.path[i], &planes, &err), &err);
        assert_true(planes.width == info.width && planes.height == info.height);
        assert_true(planes.count == (info.color == JPEG_GRAY ? 1 : 3));
        warnings += jpeg_decoder_warnings(decoder);
        free(data);
    }
    assert_int_equal(warnings, 2);
    jpeg_decoder_close(decoder);
    test_files_free(&files);
}

/* djpeg smooths over the missing scans of these files; we decode only what is present. */
static bool is_incomplete_progressive(const char *path)
{
    return strstr(path, "progressive-missing-ac") != NULL;
}

static void luma_matches_djpeg(void **state)
{
    (void)state;
    struct test_files files = test_files_find("jpeg-variety/*");
    struct jpeg_decoder *decoder = test_open_decoder();
    size_t compared = 0;
    if (test_run("command -v djpeg >/dev/null"))
        test_skip("no djpeg here (libjpeg-turbo-progs)");
    for (size_t i = 0; i < files.count; i++) {
        struct err err;
        struct jpeg_planes planes;
        size_t bytes;
        unsigned char *data = test_read_file(files.path[i], &bytes);
        assert_ok(jpeg_decode(decoder, data, bytes, files.path[i], &planes, &err), &err);
        free(data);
        if (planes.color == JPEG_RGB || is_incomplete_progressive(files.path[i]))
            continue;
        size_t pixels = (size_t)planes.width * planes.height, room = pixels + 100;
        char *pgm = malloc(room), header[50];
        assert_non_null(pgm);
        int status = test_run_output(pgm, room, "djpeg -dct int -grayscale -pnm '%s' 2>/dev/null",
                                     files.path[i]);
        assert_true(status == 0 || status == 2); /* 2: decoded with warnings */
        int header_bytes =
            snprintf(header, sizeof header, "P5\n%u %u\n255\n", planes.width, planes.height);
        assert_memory_equal(pgm, header, header_bytes);
        for (uint32_t y = 0; y < planes.height; y++)
            if (memcmp(pgm + header_bytes + (size_t)y * planes.width,
                       planes.plane[0].data + y * planes.plane[0].stride_bytes, planes.width))
                fail_msg("%s: row %u differs", test_file_name(files.path[i]), y);
        compared++;
        free(pgm);
    }
    assert_true(compared >= 55);
    jpeg_decoder_close(decoder);
    test_files_free(&files);
}

static void decoded_parts_match_the_whole_image(void **state)
{
    (void)state;
    struct test_files files = test_files_find("jpeg-variety/*");
    struct jpeg_decoder *full = test_open_decoder(), *some = test_open_decoder();
    for (size_t i = 0; i < files.count; i++) {
        struct err err;
        struct jpeg_planes planes, parts;
        struct jpeg_info info;
        size_t bytes;
        unsigned char *data = test_read_file(files.path[i], &bytes);
        assert_ok(jpeg_decode(full, data, bytes, files.path[i], &planes, &err), &err);
        uint32_t width = planes.width, height = planes.height;
        uint32_t ends[] = {1, 8, 17, height / 2, height - 1, height};
        for (size_t k = 0; k < sizeof ends / sizeof ends[0]; k++) {
            uint32_t end = ends[k], first = end / 2;
            if (end < 1 || end > height)
                continue;
            struct image_rect part = {width / 3, first, width - width / 3, end - first};
            assert_ok(jpeg_decode_begin(some, data, bytes, files.path[i], &info, &err), &err);
            assert_ok(jpeg_decode_part(some, &part, &parts, &err), &err);
            test_compare_region(&planes, &parts, part, test_file_name(files.path[i]));
        }
        free(data);
    }
    jpeg_decoder_close(full);
    jpeg_decoder_close(some);
    test_files_free(&files);
}

static void a_file_without_tables_does_not_use_the_previous_files(void **state)
{
    (void)state;
    struct err err;
    struct jpeg_planes planes;
    size_t bytes;
    unsigned char *data = test_render_jpeg(64, 48, 80, &bytes), *bare = malloc(bytes);
    struct jpeg_decoder *decoder = test_open_decoder();
    assert_non_null(bare);
    size_t at = 2, kept = 2;
    memcpy(bare, data, 2);
    /* copies all segments except the quantization tables */
    while (data[at + 1] != 0xda) {
        size_t segment = 2 + ((size_t)data[at + 2] << 8 | data[at + 3]);
        if (data[at + 1] != 0xdb) {
            memcpy(bare + kept, data + at, segment);
            kept += segment;
        }
        at += segment;
    }
    memcpy(bare + kept, data + at, bytes - at);
    kept += bytes - at;
    assert_true(kept < bytes);
    assert_int_equal(jpeg_decode(decoder, bare, kept, NULL, &planes, &err), -EBADMSG);
    assert_ok(jpeg_decode(decoder, data, bytes, NULL, &planes, &err), &err);
    assert_int_equal(jpeg_decode(decoder, bare, kept, NULL, &planes, &err), -EBADMSG);
    free(data);
    free(bare);
    jpeg_decoder_close(decoder);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    struct err err;
    struct jpeg_planes planes;
    size_t bytes;
    unsigned char *data = test_render_jpeg(75, 53, 85, &bytes);
    struct jpeg_decoder *decoder = test_open_decoder();
    for (size_t kept = 0; kept < bytes; kept++) {
        /* exact size, so that a sanitizer detects overreads */
        unsigned char *cut = malloc(kept + !kept);
        assert_non_null(cut);
        memcpy(cut, data, kept);
        assert_int_equal(jpeg_decode(decoder, cut, kept, "cut", &planes, &err), -EBADMSG);
        assert_in_range(err.offset, 0, kept);
        free(cut);
    }
    free(data);
    jpeg_decoder_close(decoder);
}

static void damaged_bytes_are_refused_or_decoded_within_bounds(void **state)
{
    (void)state;
    struct test_files files = test_files_find("jpeg-variety/*");
    struct jpeg_decoder *decoder = test_open_decoder();
    size_t refused = 0, decoded = 0;
    for (size_t i = 0; i < files.count; i++) {
        size_t bytes;
        unsigned char *data = test_read_file(files.path[i], &bytes);
        size_t header = bytes < 700 ? bytes : 700, step = test_is_sanitized() ? 41 : 13;
        for (size_t at = 0; at < header && bytes < 20000; at += step) {
            struct err err;
            struct jpeg_planes planes;
            struct jpeg_info info;
            unsigned char *copy = malloc(bytes);
            assert_non_null(copy);
            memcpy(copy, data, bytes);
            copy[at] ^= (unsigned char)(1 << at % 8);
            int status = jpeg_decode_begin(decoder, copy, bytes, "changed", &info, &err);
            if (!status) {
                struct image_rect part = {0, 0, info.width, info.height < 200 ? info.height : 200};
                status = jpeg_decode_part(decoder, &part, &planes, &err);
            }
            assert_true(status == 0 || status == -EBADMSG);
            status ? refused++ : decoded++;
            free(copy);
        }
        free(data);
    }
    assert_true(refused > 100 && decoded > 100);
    jpeg_decoder_close(decoder);
    test_files_free(&files);
}

static void oversized_images_are_refused_before_anything_is_allocated(void **state)
{
    (void)state;
    struct err err;
    struct jpeg_info info;
    size_t bytes, at = 2;
    unsigned char *data = test_render_jpeg(64, 48, 80, &bytes);
    while (data[at + 1] != 0xc0)
        at += 2 + ((size_t)data[at + 2] << 8 | data[at + 3]);
    data[at + 5] = data[at + 7] = 0xf0; /* about 61000 pixels high and wide */
    assert_int_equal(jpeg_probe(data, bytes, "large.jpg", &info, &err), -EBADMSG);
    assert_non_null(strstr(err.expected, "268435456"));
    free(data);
}

static void endless_scans_are_refused(void **state)
{
    (void)state;
    char folder[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 20];
    struct err err;
    struct jpeg_planes planes;
    size_t bytes, scan = 0;
    if (test_run("command -v jpegtran >/dev/null"))
        test_skip("no jpegtran here (libjpeg-turbo-progs)");
    unsigned char *data = test_render_jpeg(30, 20, 80, &bytes);
    test_make_folder(folder);
    snprintf(path, sizeof path, "%s/a.jpg", folder);
    test_write_file(path, data, bytes);
    free(data);
    /* sequential, one scan per component: the format permits repeated scans */
    assert_int_equal(
        test_run("cd '%s' && echo '0; 1; 2;' >scans && jpegtran -scans scans a.jpg >b.jpg", folder),
        0);
    snprintf(path, sizeof path, "%s/b.jpg", folder);
    data = test_read_file(path, &bytes);
    test_remove_folder(folder);
    for (size_t i = 0; i + 1 < bytes; i++)
        scan = data[i] == 0xff && data[i + 1] == 0xda ? i : scan;
    assert_true(scan > 0);
    size_t scan_bytes = bytes - 2 - scan; /* the last scan, without the end marker */
    unsigned char *endless = malloc(bytes + JPEG_SCANS_MAX * scan_bytes);
    assert_non_null(endless);
    struct jpeg_decoder *decoder = test_open_decoder();
    for (size_t again = 10; again <= JPEG_SCANS_MAX; again += JPEG_SCANS_MAX - 10) {
        memcpy(endless, data, bytes - 2);
        for (size_t i = 0; i < again; i++)
            memcpy(endless + bytes - 2 + i * scan_bytes, data + scan, scan_bytes);
        memcpy(endless + bytes - 2 + again * scan_bytes, "\xff\xd9", 2);
        int status =
            jpeg_decode(decoder, endless, bytes + again * scan_bytes, "endless", &planes, &err);
        assert_int_equal(status, again == JPEG_SCANS_MAX ? -EBADMSG : 0);
    }
    jpeg_decoder_close(decoder);
    free(endless);
    free(data);
}

static void probe_reports_the_headers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum jpeg_color color;
        uint32_t components, orientation;
        bool progressive;
    } known[] = {
        {"golang__src__image__testdata__video-001.q50.410.progressive.jpeg", JPEG_YCBCR, 3, 1,
         true},
        {"pillow__Tests__images__hopper_orientation_6.jpg", JPEG_YCBCR, 3, 6, false},
        {"pillow__Tests__images__hopper_orientation_7.jpg", JPEG_YCBCR, 3, 7, false},
        {"pillow__Tests__images__invalid-exif.jpg", JPEG_YCBCR, 3, 1, false},
        {"jpeg-decoder__tests__reftest__images__rgb.jpg", JPEG_RGB, 3, 1, false},
        {"jpeg-decoder__tests__reftest__images__mozilla__jpg-cmyk-1.jpg", JPEG_CMYK, 4, 1, false},
        {"jpeg-decoder__tests__reftest__images__grayscale_24x16_sampling2x2.jpg", JPEG_GRAY, 1, 1,
         false},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char path[TEST_PATH_BYTES_MAX], relative[TEST_PATH_BYTES_MAX];
        struct err err;
        struct jpeg_info info;
        size_t bytes;
        snprintf(relative, sizeof relative, "jpeg-variety/%s", known[i].name);
        test_need_data(relative, path);
        unsigned char *data = test_read_file(path, &bytes);
        assert_ok(jpeg_probe(data, bytes, path, &info, &err), &err);
        free(data);
        if (info.color != known[i].color || info.components != known[i].components ||
            info.orientation != known[i].orientation || info.progressive != known[i].progressive)
            fail_msg("%s: color %d, %u components, orientation %u, progressive %d", known[i].name,
                     info.color, info.components, info.orientation, info.progressive);
    }
}

/* Decoding a progressive image needs all its coefficients in memory at once. */
static void a_progressive_image_takes_no_more_memory_than_the_limit(void **state)
{
    (void)state;
    if (test_run("command -v jpegtran >/dev/null"))
        test_skip("no jpegtran here (libjpeg-turbo-progs)");
    enum { WIDTH = 5000, HEIGHT = 4000 };
    char folder[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 8];
    struct jpeg_decoder *decoder;
    struct jpeg_planes planes;
    struct err err;
    size_t bytes;
    unsigned char *plain = test_render_jpeg(WIDTH, HEIGHT, 80, &bytes);
    test_make_folder(folder);
    snprintf(path, sizeof path, "%s/a.jpg", folder);
    test_write_file(path, plain, bytes);
    free(plain);
    assert_int_equal(test_run("jpegtran -progressive -outfile '%s/b.jpg' '%s'", folder, path), 0);
    snprintf(path, sizeof path, "%s/b.jpg", folder);
    unsigned char *progressive = test_read_file(path, &bytes);
    assert_ok(jpeg_decoder_open(&decoder, &err), &err);
    /* less than libjpeg needs for other data */
    jpeg_decoder_set_pixels_max(decoder, WIDTH);
    assert_int_equal(jpeg_decode(decoder, progressive, bytes, path, &planes, &err), -EBADMSG);
    assert_non_null(strstr(err.what, "memory"));
    jpeg_decoder_set_pixels_max(decoder, (uint64_t)WIDTH * HEIGHT);
    assert_ok(jpeg_decode(decoder, progressive, bytes, path, &planes, &err), &err);
    jpeg_decoder_close(decoder);
    free(progressive);
    test_remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_malformed_file_is_refused_with_an_offset),
        cmocka_unit_test(every_valid_file_is_accepted),
        cmocka_unit_test(luma_matches_djpeg),
        cmocka_unit_test(decoded_parts_match_the_whole_image),
        cmocka_unit_test(a_file_without_tables_does_not_use_the_previous_files),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(damaged_bytes_are_refused_or_decoded_within_bounds),
        cmocka_unit_test(oversized_images_are_refused_before_anything_is_allocated),
        cmocka_unit_test(endless_scans_are_refused),
        cmocka_unit_test(probe_reports_the_headers),
        cmocka_unit_test(a_progressive_image_takes_no_more_memory_than_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
