/*
 * Tar headers: other tools read ours (see shard.c), and archives of other tools are scanned
 * correctly.
 */
#include "shards/format/tar.h"

#include "base/bytes.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An archive in memory. */
struct memory {
    const uint8_t *data;
    size_t bytes;
};

static int memory_read(void *context, uint64_t offset, void *data, size_t bytes)
{
    const struct memory *memory = context;
    if (offset > memory->bytes || bytes > memory->bytes - offset)
        return -ENODATA;
    memcpy(data, memory->data + offset, bytes);
    return 0;
}

/* Scans to the end. Stores the names, one per line, in `names` (may be NULL) and their number in
 * *ret_count. */
static int scan_all(const struct memory *memory, char *names, size_t names_bytes, size_t *ret_count,
                    struct err *err)
{
    struct memory copy = *memory;
    struct tar_scanner scanner = {
        .read = memory_read, .context = &copy, .path = "x", .file_bytes = memory->bytes};
    struct tar_member member;
    size_t used = 0;
    int status;
    *ret_count = 0;
    while (!(status = tar_scan(&scanner, &member, err)) && member.kind != TAR_END) {
        assert_true(member.data_offset + member.size_bytes <= memory->bytes);
        assert_true(member.header_offset < member.data_offset);
        size_t bytes = strlen(member.name);
        if (member.kind == TAR_FOLDER && bytes > 0 && member.name[bytes - 1] == '/')
            bytes--;
        if (names)
            used += (size_t)snprintf(names + used, names_bytes - used, "%.*s\n", (int)bytes,
                                     member.name);
        ++*ret_count;
    }
    tar_scanner_deinit(&scanner);
    return status;
}

static void names_of_every_length_round_trip(void **state)
{
    (void)state;
    struct err err;
    char name[TAR_NAME_BYTES_MAX + 2];
    for (size_t bytes = 1; bytes <= TAR_NAME_BYTES_MAX; bytes += bytes < 400 ? 1 : 61) {
        for (int slashes = 0; slashes < 2; slashes++) {
            struct str out = {0};
            size_t count;
            char found[TAR_NAME_BYTES_MAX + 2];
            for (size_t i = 0; i < bytes; i++)
                name[i] = slashes && i % 50 == 49 && i + 1 < bytes ? '/' : (char)('a' + i % 26);
            name[bytes] = '\0';
            assert_ok(tar_add_header(&out, name, 0, &err), &err);
            assert_ok(scan_all(&(struct memory){(uint8_t *)out.data, out.bytes}, found,
                               sizeof found, &count, &err),
                      &err);
            assert_int_equal(count, 1);
            found[strlen(found) - 1] = '\0';
            assert_string_equal(found, name);
            str_deinit(&out);
        }
    }
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct str out = {0};
    assert_int_equal(tar_add_header(&out, name, 0, &err), -ENAMETOOLONG);
    str_deinit(&out);
}

static void sizes_beyond_octal_round_trip(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {
        0, 1, 511, 512, (UINT64_C(1) << 33) - 1, UINT64_C(1) << 33, UINT64_C(1) << 45};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct err err;
        struct str out = {0};
        struct tar_member member;
        assert_ok(tar_add_header(&out, "big", sizes[i], &err), &err);
        struct memory memory = {(uint8_t *)out.data, out.bytes};
        struct tar_scanner scanner = {.read = memory_read,
                                      .context = &memory,
                                      .path = "x",
                                      .file_bytes = out.bytes + (UINT64_C(1) << 46)};
        assert_ok(tar_scan(&scanner, &member, &err), &err);
        assert_true(member.size_bytes == sizes[i]);
        assert_true(scanner.offset == out.bytes + bytes_round_up(sizes[i], 512));
        tar_scanner_deinit(&scanner);
        str_deinit(&out);
    }
}

/* If GNU tar, bsdtar and Python's tarfile list the same names for an archive, so do we. */
static void archives_are_listed_as_by_other_readers(void **state)
{
    (void)state;
    char verdicts_path[TEST_PATH_BYTES_MAX], folder[TEST_PATH_BYTES_MAX], line[256];
    test_need_data("tar/verdicts.tsv", verdicts_path);
    test_need_data("tar", folder);
    FILE *verdicts = fopen(verdicts_path, "r");
    assert_non_null(verdicts);
    static char ours[1 << 18], theirs[1 << 18];
    int checked = 0, failed = 0;
    while (fgets(line, sizeof line, verdicts)) {
        char file[128], path[TEST_PATH_BYTES_MAX + 130], gnu[32], bsd[32], python[32];
        if (sscanf(line, "%127[^\t]\t%31[^\t]\t%31[^\t]\t%31[^\n]", file, gnu, bsd, python) != 4)
            continue;
        if (strcmp(gnu, bsd) != 0 || strcmp(gnu, python) != 0 ||
            strcmp(file + strlen(file) - 4, ".tar") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, file);
        struct err err = {0};
        size_t bytes, count;
        uint8_t *data = test_read_file(path, &bytes);
        int status = scan_all(&(struct memory){data, bytes}, ours, sizeof ours, &count, &err);
        free(data);
        checked++;
        bool error = strcmp(gnu, "error") == 0;
        if (error != (status != 0) || (!error && count != (size_t)atoi(gnu + 3))) {
            char text[ERR_LINE_BYTES_MAX];
            print_error("%s: readers say %s; we %d, %zu members, %s\n", file, gnu, status, count,
                        status ? err_format(&err, text, sizeof text) : "");
            failed++;
            continue;
        }
        if (error) {
            assert_int_equal(status, -EBADMSG);
            assert_true(err.offset >= 0);
            continue;
        }
        if (strcmp(file, "go/pax-global-records.tar") == 0)
            /* the tools agree only on the count: each handles an empty path in a global header
             * differently */
            continue;
        test_run_output(theirs, sizeof theirs,
                        "tar --quoting-style=literal -P -tf '%s' 2>/dev/null | sed 's:/$::'", path);
        if (strcmp(ours, theirs) != 0) {
            print_error("%s: names differ; ours:\n%stheirs:\n%s", file, ours, theirs);
            failed++;
        }
    }
    fclose(verdicts);
    assert_true(checked > 40);
    assert_int_equal(failed, 0);
}

/* No damaged archive causes reads out of bounds or an endless loop. */
static void damaged_archives_end_with_an_error_or_a_listing(void **state)
{
    (void)state;
    char path[TEST_PATH_BYTES_MAX];
    static const char *const files[] = {"tar/go/pax.tar", "tar/go/gnu-multi-hdrs.tar",
                                        "tar/go/sparse-formats.tar",
                                        "tar/go/pax-global-records.tar"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        test_need_data(files[i], path);
        size_t bytes, count;
        uint8_t *data = test_read_file(path, &bytes);
        size_t kept = bytes < 8192 ? bytes : 8192;
        struct err err;
        for (size_t at = 0; at < kept; at++) {
            static const uint8_t values[] = {0, '9', 0x80, 0xff};
            uint8_t before = data[at];
            for (size_t v = 0; v < sizeof values; v++) {
                data[at] = values[v];
                int status = scan_all(&(struct memory){data, bytes}, NULL, 0, &count, &err);
                assert_true(status == 0 || status == -EBADMSG);
            }
            data[at] = before;
        }
        for (size_t cut = 0; cut < kept; cut += 13) {
            /* exact size, so that a sanitizer detects overreads */
            uint8_t *copy = malloc(cut + 1);
            memcpy(copy, data, cut);
            int status = scan_all(&(struct memory){copy, cut}, NULL, 0, &count, &err);
            assert_true(status == 0 || status == -EBADMSG);
            free(copy);
        }
        free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_every_length_round_trip),
        cmocka_unit_test(sizes_beyond_octal_round_trip),
        cmocka_unit_test(archives_are_listed_as_by_other_readers),
        cmocka_unit_test(damaged_archives_end_with_an_error_or_a_listing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
