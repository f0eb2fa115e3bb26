/*
 * jpeg_headers — headers of real files compared with djpeg's trace and Pillow; truncated headers,
 * and headers that no decoder accepts.
 */
#include "image/jpeg/jpeg_headers.h"

#include "base/str.h"
#include "tests/image/fixtures.h"
#include "tests/support/test.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* In the format of jpeg_headers.py. */
static void add_line(struct str *out, const struct jpeg_headers *headers)
{
    int sof = 0xc0 + (int)headers->process + (headers->hierarchical ? 4 : 0) +
              (headers->arithmetic ? 8 : 0);
    str_add_format(out, "0x%02x %u %u %u ", sof, headers->width, headers->height,
                   headers->restart_interval);
    for (uint32_t i = 0; i < headers->components; i++)
        str_add_format(out, "%s%ux%u", i ? "," : "", headers->h_samp[i], headers->v_samp[i]);
    str_add_format(out, " %u.%u ", headers->jfif_major, headers->jfif_minor);
    if (headers->has_adobe)
        str_add_format(out, "%u", headers->adobe_transform);
    else
        str_add_text(out, "-");
    /* Pillow accepts a profile only if all chunks are present */
    bool whole = headers->icc_chunks == headers->icc_chunks_expected;
    str_add_format(out, " %" PRIu64 " %u\n", whole ? headers->icc_bytes : 0, headers->orientation);
}

static void headers_match_djpeg_and_pillow(void **state)
{
    (void)state;
    enum { EXPECTED_BYTES_MAX = 1 << 16 };
    const char *python = test_need_python("PIL");
    if (test_run("command -v djpeg >/dev/null") != 0)
        test_skip("no djpeg here");
    char folder[TEST_PATH_BYTES_MAX];
    test_need_data("jpeg-variety", folder);
    struct test_files files = test_files_find("jpeg-variety/*");
    char *expected = malloc(EXPECTED_BYTES_MAX);
    assert_int_equal(test_run_output(expected, EXPECTED_BYTES_MAX,
                                     "'%s' %s/tests/image/jpeg_headers.py '%s'", python,
                                     TEST_SOURCE_DIR, folder),
                     0);
    char *rest = expected;
    for (size_t i = 0; i < files.count; i++) {
        struct jpeg_headers headers;
        struct err err = {0};
        struct str line = {0};
        size_t bytes;
        unsigned char *data = test_read_file(files.path[i], &bytes);
        assert_ok(jpeg_read_headers(data, bytes, bytes, files.path[i], &headers, &err), &err);
        add_line(&line, &headers);
        if (strncmp(str_text(&line), rest, line.bytes) != 0)
            fail_msg("%s: expected %.100s\nfound %s", files.path[i], rest, str_text(&line));
        rest += line.bytes;
        str_deinit(&line);
        free(data);
    }
    assert_string_equal(rest, "");
    free(expected);
    test_files_free(&files);
}

/* Compares with the headers that the decoder reads from the same files, and checks that nothing
 * after the headers is read. */
static void headers_are_parsed_without_further_bytes(void **state)
{
    (void)state;
    struct test_files files = test_files_find("jpeg-variety/*");
    for (size_t i = 0; i < files.count; i++) {
        struct jpeg_headers whole, part;
        struct jpeg_info info;
        struct err err = {0};
        size_t bytes;
        unsigned char *data = test_read_file(files.path[i], &bytes);
        assert_ok(jpeg_read_headers(data, bytes, bytes, "x", &whole, &err), &err);
        assert_ok(jpeg_probe(data, whole.header_bytes, "x", &info, &err), &err);
        assert_int_equal(info.width, whole.width);
        assert_int_equal(info.components, whole.components);
        assert_int_equal(info.progressive, whole.process == JPEG_PROGRESSIVE);
        assert_int_equal(info.arithmetic, whole.arithmetic);
        assert_int_equal(info.orientation, whole.orientation);
        memset(&part, 0, sizeof part);
        assert_ok(jpeg_read_headers(data, whole.header_bytes, bytes, "x", &part, &err), &err);
        assert_int_equal(part.header_bytes, whole.header_bytes);
        size_t step = whole.header_bytes > 4096 ? whole.header_bytes / 256 : 1;
        for (size_t cut = 0; cut < whole.header_bytes; cut += step) {
            /* so that a sanitizer detects overreads */
            unsigned char *copy = malloc(cut + 1);
            memcpy(copy, data, cut);
            assert_int_equal(jpeg_read_headers(copy, cut, bytes, "x", &part, &err), -ENODATA);
            assert_int_equal(jpeg_read_headers(copy, cut, cut, "x", &part, &err), -EBADMSG);
            assert_int_equal(err.offset, cut);
            free(copy);
        }
        free(data);
    }
    test_files_free(&files);
}

static void malformed_files_are_described_or_refused_with_an_offset(void **state)
{
    (void)state;
    struct test_files files = test_files_find("jpeg-malformed/*");
    size_t lossless = 0, refused = 0;
    for (size_t i = 0; i < files.count; i++) {
        struct jpeg_headers headers = {.width = 12345};
        struct err err = {0};
        size_t bytes;
        unsigned char *data = test_read_file(files.path[i], &bytes);
        int status = jpeg_read_headers(data, bytes, bytes, files.path[i], &headers, &err);
        if (status) {
            assert_int_equal(status, -EBADMSG);
            assert_in_range(err.offset, 0, bytes);
            assert_int_equal(headers.width, 12345);
            refused++;
        } else {
            assert_true(headers.width > 0 && headers.header_bytes <= bytes);
            lossless += headers.process == JPEG_LOSSLESS;
        }
        free(data);
    }
    assert_int_equal(lossless, 5);   /* djpeg reports "SOF type 0xc3" for the same number */
    assert_in_range(refused, 3, 20); /* most are broken after their headers */
    test_files_free(&files);
}

static void malformed_headers_are_refused_with_an_offset(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        int64_t offset; /* -1: valid */
    } cases[] = {
#define CASE(text, offset) {text, sizeof text - 1, offset}
#define FRAME              "\xff\xc0\x00\x0b\x08\x00\x02\x00\x03\x01\x01\x11\x00"
#define SCAN               "\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00"
        CASE("\xff\xd8" FRAME SCAN, -1),
        /* stray bytes, fill bytes, a lone marker */
        CASE("\xff\xd8\x00zz\xff\xff\xff\x01" FRAME SCAN, -1),
        CASE("GIF89a", 0),
        CASE("\xff\xd8" FRAME FRAME SCAN, 15),
        CASE("\xff\xd8" SCAN, 2),
        CASE("\xff\xd8" FRAME "\xff\xd9", 15),
        CASE("\xff\xd8\xff\xd8" FRAME SCAN, 2),
        CASE("\xff\xd8\xff\xe0\x00\x01" FRAME SCAN, 4),
        CASE("\xff\xd8\xff\xdd\x00\x05\x00\x01\x02" FRAME SCAN, 2),
        /* no height */
        CASE("\xff\xd8\xff\xc0\x00\x0b\x08\x00\x00\x00\x03\x01\x01\x11\x00" SCAN, 2),
        /* horizontal sampling factor 5 */
        CASE("\xff\xd8\xff\xc0\x00\x0b\x08\x00\x02\x00\x03\x01\x01\x51\x00" SCAN, 2),
        /* two components in a segment with space for one */
        CASE("\xff\xd8\xff\xc0\x00\x0b\x08\x00\x02\x00\x03\x02\x01\x11\x00" SCAN, 2),
        CASE("\xff\xd8\xff\xc0\x00\x08\x08\x00\x02\x00\x03\x00" SCAN, 2),
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct jpeg_headers headers;
        struct err err = {0};
        int status =
            jpeg_read_headers(cases[i].bytes, cases[i].count, cases[i].count, "x", &headers, &err);
        assert_int_equal(status, cases[i].offset < 0 ? 0 : -EBADMSG);
        if (status)
            assert_int_equal(err.offset, cases[i].offset);
        else
            assert_int_equal(headers.stray_bytes, i == 1 ? 3 : 0);
    }
}

static void usual_samplings_have_their_names(void **state)
{
    (void)state;
    static const struct {
        uint32_t h, v;
        const char *name;
    } cases[] = {{1, 1, "4:4:4"}, {2, 1, "4:2:2"}, {2, 2, "4:2:0"}, {1, 2, "4:4:0"},
                 {4, 1, "4:1:1"}, {4, 2, "4:1:0"}, {3, 1, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct jpeg_headers headers = {
            .components = 3, .h_samp = {cases[i].h, 1, 1}, .v_samp = {cases[i].v, 1, 1}};
        const char *name = jpeg_subsampling_name(&headers);
        assert_true(name ? cases[i].name && strcmp(name, cases[i].name) == 0 : !cases[i].name);
    }
    struct jpeg_headers doubled = {.components = 3, .h_samp = {2, 2, 2}, .v_samp = {2, 2, 2}};
    assert_string_equal(jpeg_subsampling_name(&doubled), "4:4:4");
    struct jpeg_headers gray = {.components = 1, .h_samp = {1}, .v_samp = {1}};
    assert_null(jpeg_subsampling_name(&gray));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_match_djpeg_and_pillow),
        cmocka_unit_test(headers_are_parsed_without_further_bytes),
        cmocka_unit_test(malformed_files_are_described_or_refused_with_an_offset),
        cmocka_unit_test(malformed_headers_are_refused_with_an_offset),
        cmocka_unit_test(usual_samplings_have_their_names),
    };
    return cmocka_run_group_tests_name("jpeg_headers", tests, NULL, NULL);
}
