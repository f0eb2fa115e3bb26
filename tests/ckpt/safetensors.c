/*
 * Tests safetensors headers: malformed headers are refused, and written headers can be read.
 */
#include "ckpt/format/safetensors.h"
#include "base/bytes.h"
#include "tests/ckpt/fixture.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct io *open_io(void)
{
    struct io *io = NULL;
    struct err err = {0};
    assert_ok(io_open(".", NULL, &io, &err), &err);
    return io;
}

/* Calls check for each file in the folder; returns the number of files. */
static int each_file(const char *kind,
                     void (*check)(struct io *io, const char *path, const char *name))
{
    char folder[TEST_PATH_BYTES_MAX], path[FIXTURE_PATH_BYTES];
    int count = 0;
    test_need_data(kind, folder);
    struct io *io = open_io();
    DIR *dir = opendir(folder);
    struct dirent *entry;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        check(io, path, entry->d_name);
        count++;
    }
    closedir(dir);
    io_close(io);
    return count;
}

static void refuse(struct io *io, const char *path, const char *name)
{
    struct safetensors file;
    struct err err = {0};
    char line[ERR_LINE_BYTES_MAX];
    int status = safetensors_read(io, path, &file, &err);
    if (status != -EBADMSG || err.offset < 0 || strcmp(err.path, path) != 0)
        fail_msg("%s: status %d, %s", name, status, err_format(&err, line, sizeof line));
}

static void every_malformed_file_is_refused_with_an_offset(void **state)
{
    (void)state;
    assert_int_equal(each_file("safetensors/malformed", refuse), 42);
}

static void accept(struct io *io, const char *path, const char *name)
{
    struct safetensors file;
    struct err err = {0};
    char line[ERR_LINE_BYTES_MAX];
    if (safetensors_read(io, path, &file, &err))
        fail_msg("%s: %s", name, err_format(&err, line, sizeof line));
    for (uint64_t i = 0; i < file.count; i++)
        assert_true(file.entries[i].size_bytes <= file.file_bytes);
    safetensors_deinit(&file);
}

static void every_valid_file_is_read(void **state)
{
    (void)state;
    assert_int_equal(each_file("safetensors/valid", accept), 22);
}

/* A NUL would truncate the name in C, and a lone surrogate is not a character: neither can be
 * written back as JSON text. A name that looks like a path is accepted, since names never become
 * paths here. */
static void decide(struct io *io, const char *path, const char *name)
{
    if (strcmp(name, "path_traversal_name.safetensors") == 0)
        accept(io, path, name);
    else
        refuse(io, path, name);
}

static void path_like_names_are_accepted_other_debatable_files_are_not(void **state)
{
    (void)state;
    assert_int_equal(each_file("safetensors/debatable", decide), 3);
}

static int parse(const char *header, uint64_t data_bytes, struct safetensors *file, struct err *err)
{
    uint64_t bytes = strlen(header);
    return safetensors_parse(header, bytes, 8 + bytes + data_bytes, "test", file, err);
}

static void error_offsets_point_to_the_error(void **state)
{
    (void)state;
    struct safetensors file;
    struct err err = {0};
    const char *unknown = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                          "\"b\":{\"dtype\":\"F7\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    assert_int_equal(parse(unknown, 2, &file, &err), -EBADMSG);
    assert_int_equal(err.offset, 8 + (strstr(unknown, "\"b\"") - unknown));
    const char *hole = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                       "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[3,4]}}";
    assert_int_equal(parse(hole, 4, &file, &err), -EBADMSG);
    assert_int_equal(err.offset, 8 + strlen(hole) + 1);
}

static void too_many_dimensions_are_refused(void **state)
{
    (void)state;
    struct safetensors file;
    struct err err = {0};
    assert_int_equal(
        parse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
              &file, &err),
        -EBADMSG);
    assert_ok(parse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}",
                    1, &file, &err),
              &err);
    safetensors_deinit(&file);
}

static void headers_truncated_anywhere_are_refused(void **state)
{
    (void)state;
    const char *whole = "{\"__metadata__\":{\"k\":\"v\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],"
                        "\"data_offsets\":[0,24]}}";
    struct safetensors file;
    struct err err = {0};
    assert_ok(parse(whole, 24, &file, &err), &err);
    safetensors_deinit(&file);
    for (size_t bytes = 0; bytes < strlen(whole); bytes++)
        assert_int_equal(safetensors_parse(whole, bytes, 8 + bytes + 24, "test", &file, &err),
                         -EBADMSG);
}

static void random_bytes_are_refused_without_a_crash(void **state)
{
    (void)state;
    const char *whole = "{\"__metadata__\":{\"k\":\"v\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],"
                        "\"data_offsets\":[0,24]}}";
    size_t bytes = strlen(whole);
    char text[128];
    srand(17);
    for (int round = 0; round < 20000; round++) {
        memcpy(text, whole, bytes);
        for (int change = 0; change < 3; change++)
            text[(size_t)rand() % bytes] = (char)(rand() % 256);
        struct safetensors file;
        if (safetensors_parse(text, bytes, 8 + bytes + 24, "test", &file, NULL) == 0) {
            for (uint64_t i = 0; i < file.count; i++)
                assert_true(file.entries[i].offset_bytes + file.entries[i].size_bytes <=
                            file.file_bytes);
            safetensors_deinit(&file);
        }
    }
}

static void written_headers_are_canonical_and_aligned(void **state)
{
    (void)state;
    struct safetensors_entry entries[] = {
        {.name = "z", .dtype = DTYPE_BOOL, .rank = 1, .shape = {3}},
        {.name = "b", .dtype = DTYPE_F32, .rank = 2, .shape = {2, 3}},
        {.name = "a", .dtype = DTYPE_F32, .rank = 0},
        {.name = "y", .dtype = DTYPE_I64, .rank = 1, .shape = {0}},
        {.name = "\"q\"\n", .dtype = DTYPE_BF16, .rank = 1, .shape = {1}},
    };
    uint64_t count = sizeof entries / sizeof entries[0], file_bytes = 0;
    static const char *const metadata[][2] = {{"format", "pt"}, {"who", "us"}};
    struct str out = {0};
    struct safetensors file;
    struct err err = {0};
    qsort(entries, count, sizeof entries[0], safetensors_compare);
    assert_ok(safetensors_encode(entries, count, metadata, 2, 4096, &out, &file_bytes, &err), &err);
    assert_int_equal(out.bytes, 4096);
    assert_int_equal(file_bytes, 4096 + 0 + 4 + 24 + 2 + 3);
    const char *expected =
        "{\"__metadata__\":{\"format\":\"pt\",\"who\":\"us\"},"
        "\"y\":{\"dtype\":\"I64\",\"shape\":[0],\"data_offsets\":[0,0]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},"
        "\"\\\"q\\\"\\u000a\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[28,30]},"
        "\"z\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[30,33]}} ";
    assert_memory_equal(out.data + 8, expected, strlen(expected));
    assert_ok(
        safetensors_parse(out.data + 8, bytes_get_u64(out.data), file_bytes, "ours", &file, &err),
        &err);
    assert_int_equal(file.count, count);
    for (uint64_t i = 0; i < count; i++) {
        assert_string_equal(file.entries[i].name, entries[i].name);
        assert_int_equal(file.entries[i].offset_bytes, entries[i].offset_bytes);
    }
    safetensors_deinit(&file);
    str_deinit(&out);
}

static void overflowing_sizes_are_refused_by_the_writer(void **state)
{
    (void)state;
    struct safetensors_entry entry = {
        .name = "a", .dtype = DTYPE_F64, .rank = 2, .shape = {UINT64_C(1) << 40, 1 << 22}};
    struct str out = {0};
    uint64_t file_bytes;
    assert_int_equal(safetensors_encode(&entry, 1, NULL, 0, 8, &out, &file_bytes, NULL),
                     -EOVERFLOW);
    str_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_malformed_file_is_refused_with_an_offset),
        cmocka_unit_test(every_valid_file_is_read),
        cmocka_unit_test(path_like_names_are_accepted_other_debatable_files_are_not),
        cmocka_unit_test(error_offsets_point_to_the_error),
        cmocka_unit_test(too_many_dimensions_are_refused),
        cmocka_unit_test(headers_truncated_anywhere_are_refused),
        cmocka_unit_test(random_bytes_are_refused_without_a_crash),
        cmocka_unit_test(written_headers_are_canonical_and_aligned),
        cmocka_unit_test(overflowing_sizes_are_refused_by_the_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
