/*
 * .npy headers: numpy reads ours, and we read numpy's.
 */
#include "shards/format/npy.h"

#include "base/str.h"
#include "shards/format/npy_header.h"
#include "tests/support/test.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void numpy_reads_our_files(void **state)
{
    (void)state;
    const char *python = test_need_python("numpy");
    char folder[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 16], text[256];
    test_make_folder(folder);
    snprintf(path, sizeof path, "%s/a.npy", folder);
    uint8_t file[NPY_HEADER_BYTES + 6];
    npy_encode_header(DTYPE_U16, 3, file);
    memcpy(file + NPY_HEADER_BYTES, "\x01\x00\x00\x01\xff\xff", 6);
    test_write_file(path, file, sizeof file);
    assert_int_equal(
        test_run_output(
            text, sizeof text,
            "'%s' -c 'import numpy, sys; a = numpy.load(sys.argv[1]); print(a.dtype, a.shape, "
            "a.tolist())' '%s'",
            python, path),
        0);
    assert_string_equal(text, "uint16 (3,) [1, 256, 65535]\n");
    test_remove_folder(folder);
}

static void numpys_files_are_read(void **state)
{
    (void)state;
    const char *python = test_need_python("numpy");
    static const struct {
        const char *expression;
        int status;
        enum dtype dtype;
        uint64_t count;
    } cases[] = {
        {"numpy.arange(65537, dtype=\"<u2\")", 0, DTYPE_U16, 65537},
        {"numpy.arange(5, dtype=\"<u4\")", 0, DTYPE_U32, 5},
        {"numpy.zeros(0, dtype=\"<i8\")", 0, DTYPE_I64, 0},
        {"numpy.zeros(7, dtype=\"<f4\")", 0, DTYPE_F32, 7},
        {"numpy.zeros(7, dtype=\"bool\")", 0, DTYPE_BOOL, 7},
        {"numpy.zeros((2, 3), dtype=\"<u2\")", -ENOTSUP, 0, 0},
        {"numpy.zeros((), dtype=\"<u2\")", -ENOTSUP, 0, 0},
        {"numpy.zeros(3, dtype=\">u2\")", -ENOTSUP, 0, 0},
        {"numpy.zeros(3, dtype=\"U4\")", -ENOTSUP, 0, 0},
        {"numpy.asfortranarray(numpy.zeros((2, 3)))", -ENOTSUP, 0, 0},
    };
    char folder[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 16];
    test_make_folder(folder);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(path, sizeof path, "%s/%zu.npy", folder, i);
        assert_int_equal(test_run("'%s' -c 'import numpy, sys; numpy.save(sys.argv[1], %s)' '%s'",
                                  python, cases[i].expression, path),
                         0);
        size_t bytes;
        uint8_t *file = test_read_file(path, &bytes);
        struct npy npy;
        struct err err;
        assert_int_equal(npy_decode_header(file, bytes, bytes, path, &npy, &err), cases[i].status);
        if (cases[i].status == 0) {
            assert_int_equal(npy.dtype, cases[i].dtype);
            assert_int_equal(npy.count, cases[i].count);
            assert_int_equal(npy.header_bytes + cases[i].count * dtype_bytes(npy.dtype), bytes);
            assert_int_equal(npy_decode_header(file, bytes, bytes + 1, path, &npy, &err), -EBADMSG);
        }
        free(file);
    }
    test_remove_folder(folder);
}

static void a_damaged_header_is_refused(void **state)
{
    (void)state;
    uint8_t good[NPY_HEADER_BYTES + 8], bad[sizeof good];
    struct npy npy;
    struct err err;
    npy_encode_header(DTYPE_U32, 2, good);
    memset(good + NPY_HEADER_BYTES, 7, 8);
    assert_ok(npy_decode_header(good, sizeof good, sizeof good, "x", &npy, &err), &err);
    for (size_t bytes = 0; bytes < NPY_HEADER_BYTES; bytes++)
        assert_int_equal(npy_decode_header(good, bytes, sizeof good, "x", &npy, &err), -EBADMSG);
    for (size_t at = 0; at < 10; at++) {
        memcpy(bad, good, sizeof bad);
        bad[at] ^= 0x55;
        int status = npy_decode_header(bad, sizeof bad, sizeof bad, "x", &npy, &err);
        /* byte 7, the minor version, is not checked */
        assert_true(at == 7 ? status == 0 : status == -EBADMSG || status == -ENOTSUP);
    }
    static const char *const dicts[] = {
        "{'descr': '<u4', 'fortran_order': False, 'shape': (99999999999999999999999,), }",
        "{'descr': '<u4', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<u4', 'fortran_order': False, 'shape': (2), }",
        "{'descr': '<u4', 'fortran_order': Maybe, 'shape': (2,), }",
        "{'descr': '<u4', 'shape': (2,), }",
        "{'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<u4', 'fortran_order': False, }",
    };
    for (size_t i = 0; i < sizeof dicts / sizeof dicts[0]; i++) {
        memcpy(bad, good, sizeof bad);
        memset(bad + 10, ' ', NPY_HEADER_BYTES - 11);
        memcpy(bad + 10, dicts[i], strlen(dicts[i]));
        assert_int_equal(npy_decode_header(bad, sizeof bad, sizeof bad, "x", &npy, &err), -EBADMSG);
        assert_true(err.offset >= 0);
    }
}

/* In the format of npy_cases.py. */
static void add_line(struct str *out, const struct npy_header *header)
{
    str_add_format(out, "%d.%d %" PRIu64 " %d %d (", header->major, header->minor,
                   header->element_bytes, header->is_structured, header->is_fortran);
    for (uint32_t d = 0; d < header->rank; d++)
        str_add_format(out, d ? ",%" PRIu64 : "%" PRIu64, header->shape[d]);
    str_add_format(out, ") %u %" PRIu64 "\n", header->header_bytes, header->data_bytes);
}

static void headers_of_every_kind_are_read_as_by_numpy(void **state)
{
    (void)state;
    enum { EXPECTED_BYTES_MAX = 1 << 16 };
    const char *python = test_need_python("numpy");
    char folder[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 32];
    char *expected = malloc(EXPECTED_BYTES_MAX);
    test_make_folder(folder);
    assert_int_equal(test_run_output(expected, EXPECTED_BYTES_MAX,
                                     "'%s' %s/tests/shards/npy_cases.py '%s'", python,
                                     TEST_SOURCE_DIR, folder),
                     0);
    int number = 0;
    for (char *line = strtok(expected, "\n"); line; line = strtok(NULL, "\n"), number++) {
        struct npy_header header;
        struct err err = {0};
        struct str found = {0};
        size_t bytes;
        snprintf(path, sizeof path, "%s/%d.npy", folder, number);
        uint8_t *file = test_read_file(path, &bytes);
        int status = npy_read_header(file, bytes, path, &header, &err);
        if (status == -EBADMSG && strcmp(line, "too long") == 0) {
            assert_int_equal(err.offset, 8);
        } else {
            assert_ok(status, &err);
            add_line(&found, &header);
            found.data[found.bytes - 1] = '\0';
            assert_string_equal(str_text(&found), line);
        }
        str_deinit(&found);
        free(file);
    }
    assert_true(number > 100);
    free(expected);
    test_remove_folder(folder);
}

static void malformed_headers_are_refused_with_an_offset(void **state)
{
    (void)state;
    static const struct {
        const char *dict;
        int status, place; /* offset in the dict */
    } cases[] = {
        /* keys in any order, no trailing comma */
        {"{'shape': (2,), 'fortran_order': True, 'descr': '<f4'}", 0, 0},
        {"{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(10L,3L)}\n", 0, 0},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", -ENOTSUP, 11},
        {"{'descr': [('a', '<f4'), ('b', 'O')], 'fortran_order': False, 'shape': (2,), }", -ENOTSUP,
         32},
        {"{'descr': 'f4x', 'fortran_order': False, 'shape': (2,), }", -EBADMSG, 11},
        {"{'descr': '<q4', 'fortran_order': False, 'shape': (2,), }", -EBADMSG, 11},
        {"{'descr': '<f0', 'fortran_order': False, 'shape': (2,), }", -EBADMSG, 11},
        {"{'descr': [('a', '<f4'], 'fortran_order': False, 'shape': (2,), }", -EBADMSG, 22},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", -EBADMSG, 34},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2), }", -EBADMSG, 52},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': [2], }", -EBADMSG, 50},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }", -EBADMSG, 53},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", -EBADMSG, 51},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,), }", -EBADMSG,
         69},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,), }", -EBADMSG,
         75},
        {"{'descr': '<f4', 'fortran_order': False}", -EBADMSG, 39},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", -EBADMSG, 17},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", -EBADMSG, 56},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", -EBADMSG, 58},
        {"{'descr': '<f4, ", -EBADMSG, 10},
        {"__import__('os')", -EBADMSG, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct npy_header header;
        struct err err = {0};
        uint8_t file[256] = NPY_MAGIC "\x01";
        size_t dict_bytes = strlen(cases[i].dict);
        file[8] = (uint8_t)dict_bytes;
        memcpy(file + 10, cases[i].dict, dict_bytes);
        int status = npy_read_header(file, 10 + dict_bytes, "x", &header, &err);
        if (status != cases[i].status || (status && err.offset != 10 + cases[i].place))
            fail_msg("%s: status %d, offset %lld", cases[i].dict, status,
                     (long long)err.offset - 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numpy_reads_our_files),
        cmocka_unit_test(numpys_files_are_read),
        cmocka_unit_test(a_damaged_header_is_refused),
        cmocka_unit_test(headers_of_every_kind_are_read_as_by_numpy),
        cmocka_unit_test(malformed_headers_are_refused_with_an_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
