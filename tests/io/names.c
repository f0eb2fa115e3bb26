/*
 * names — operations on names of files and folders, on whole files, on paths and on URLs.
 */
#include "io/file_util.h"
#include "tests/support/engines.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

static void the_url_scheme_selects_the_backend(void **state)
{
    (void)state;
    static const char *const local[] = {"a", "/a", "file:a", "file:///a", "./a:b", "C:/x", ""};
    static const char *const foreign[] = {"s3://bucket/x", "gs://b", "ftp://h/x"};
    static const char *const web[] = {"http://h/x", "https://h/x"};
    struct io *other;
    struct err err = {0};
    struct io_options options = engines_options();
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
        assert_ok(io_open(local[i], &options, &other, &err), &err);
        /* io may be wrapped: "NAME with faults" */
        assert_memory_equal(io->ops->name, other->ops->name, strlen(other->ops->name));
        assert_string_equal(other->ops->scheme, "file");
        io_close(other);
    }
    io_close(NULL);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        assert_int_equal(io_open(foreign[i], NULL, &other, &err), -EPROTONOSUPPORT);
        assert_string_equal(err.path, foreign[i]);
        assert_true(err.advice[0] || err.expected[0]);
        assert_int_equal(io_check_path(foreign[i], &err), -EPROTONOSUPPORT);
        assert_string_equal(err.path, foreign[i]);
    }
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
        assert_ok(io_check_path(local[i], &err), &err);
        assert_ok(io_check_target(local[i], &err), &err);
        assert_true(io_serves(io, local[i]));
    }
    for (size_t i = 0; i < sizeof web / sizeof web[0]; i++) {
        assert_ok(io_check_path(web[i], &err), &err);
        assert_int_equal(io_check_target(web[i], &err), -EROFS);
        assert_false(io_serves(io, web[i]));
        assert_ok(io_open(web[i], NULL, &other, &err), &err);
        assert_true(io_serves(other, web[0]) && io_serves(other, web[1]));
        assert_false(io_serves(other, "a"));
        io_close(other);
    }
}

static void file_urls_and_paths_name_the_same_file(void **state)
{
    (void)state;
    static const char *const prefixes[] = {"", "file:", "file://", "file://localhost"};
    struct err err = {0};
    test_write_file(in_folder("x y%20"), "abc", 3);
    for (size_t i = 0; i < 4; i++) {
        char url[2 * TEST_PATH_BYTES_MAX];
        struct io_stat info;
        snprintf(url, sizeof url, "%s%s", prefixes[i], in_folder("x y%20"));
        assert_ok(io->names->stat(io, url, &info, &err), &err);
        assert_int_equal(info.size_bytes, 3);
    }
    struct io_stat info;
    assert_int_equal(io->names->stat(io, "file://elsewhere/x", &info, &err), -EINVAL);
    assert_int_equal(io->names->stat(io, "", &info, &err), -EINVAL);
    assert_int_equal(io->names->stat(io, "s3://bucket/x", &info, &err), -EPROTONOSUPPORT);
    assert_int_equal(io->names->make_folder(io, "s3://bucket/x", &err), -EPROTONOSUPPORT);
    char long_path[IO_PATH_BYTES_MAX + 10];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    assert_int_equal(io->names->stat(io, long_path, &info, &err), -ENAMETOOLONG);
    assert_string_equal(err.expected, "at most 2047 bytes");
    assert_string_equal(err.found, "2057");
    err = (struct err){0};
    assert_int_equal(io_check_path(long_path, &err), -ENAMETOOLONG);
    assert_string_equal(err.expected, "at most 2047 bytes");
    long_path[IO_PATH_BYTES_MAX - 1] = '\0';
    assert_ok(io_check_path(long_path, &err), &err);
}

static void stat_reports_type_size_and_time(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_stat before, after;
    test_write_file(in_folder("a"), "abc", 3);
    assert_ok(io->names->stat(io, in_folder("a"), &before, &err), &err);
    assert_int_equal(before.kind, IO_ENTRY_FILE);
    assert_int_equal(before.size_bytes, 3);
    assert_int_equal(test_run("touch -d '2001-02-03 04:05:06.789 UTC' '%s'", in_folder("a")), 0);
    assert_ok(io->names->stat(io, in_folder("a"), &after, &err), &err);
    assert_true(after.mtime_ns == UINT64_C(981173106789000000));
    assert_false(io_identity_is_same(&before.identity, &after.identity));
    assert_ok(io->names->stat(io, folder, &after, &err), &err);
    assert_int_equal(after.kind, IO_ENTRY_FOLDER);
    assert_int_equal(io->names->stat(io, in_folder("absent"), &after, &err), -ENOENT);
    assert_string_equal(err.path, in_folder("absent"));
}

static void an_identity_belongs_to_the_open_file_and_changes_with_its_content(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_file *file;
    struct io_identity opened, again;
    struct io_stat named;
    test_write_file(in_folder("a"), "abc", 3);
    assert_int_equal(test_run("touch -d '2001-02-03 04:05:06 UTC' '%s'", in_folder("a")), 0);
    assert_ok(io->ops->file_open(io, in_folder("a"), &file, &err), &err);
    assert_ok(io->ops->file_identity(file, &opened, &err), &err);
    assert_in_range(opened.bytes_count, 1, IO_IDENTITY_BYTES_MAX);
    assert_ok(io->names->stat(io, in_folder("a"), &named, &err), &err);
    assert_true(io_identity_is_same(&opened, &named.identity));
    test_write_file(in_folder("b"), "xyz", 3); /* another file with the same name, size and time */
    assert_int_equal(test_run("touch -d '2001-02-03 04:05:06 UTC' '%s'", in_folder("b")), 0);
    assert_int_equal(rename(in_folder("b"), in_folder("a")), 0);
    assert_ok(io->names->stat(io, in_folder("a"), &named, &err), &err);
    assert_false(io_identity_is_same(&opened, &named.identity));
    assert_ok(io->ops->file_identity(file, &again, &err), &err);
    assert_int_equal(io->ops->file_size(file), 3);
    io->ops->file_close(file);
    assert_ok(io->ops->file_open(io, in_folder("a"), &file, &err), &err);
    assert_ok(io->ops->file_identity(file, &opened, &err), &err);
    assert_true(io_identity_is_same(&opened, &named.identity));
    test_write_file(in_folder("a"), "XYZ", 3); /* in place, with the same size and time */
    assert_int_equal(test_run("touch -d '2001-02-03 04:05:06 UTC' '%s'", in_folder("a")), 0);
    assert_ok(io->ops->file_identity(file, &again, &err), &err);
    assert_false(io_identity_is_same(&opened, &again));
    io->ops->file_close(file);
}

static void paths_are_resolved_in_every_spelling(void **state)
{
    (void)state;
    static const char *const prefixes[] = {"", "file:", "file://", "file://localhost"};
    struct err err = {0};
    char full[IO_PATH_BYTES_MAX];
    test_write_file(in_folder("a"), "abc", 3);
    assert_int_equal(symlink("a", in_folder("link")), 0);
    char *real = realpath(in_folder("a"), NULL);
    assert_non_null(real);
    for (size_t i = 0; i < 4; i++) {
        char url[2 * TEST_PATH_BYTES_MAX];
        snprintf(url, sizeof url, "%s%s", prefixes[i], in_folder("link"));
        assert_ok(io_resolve(io, url, full, &err), &err);
        assert_string_equal(full, real);
    }
    free(real);
    assert_int_equal(io_resolve(io, "file://elsewhere/a", full, &err), -EINVAL);
    assert_int_equal(io_resolve(io, in_folder("absent"), full, &err), -ENOENT);
    struct io_stat info;
    io_parent_path("file://localhost/x", full);
    assert_ok(io->names->stat(io, full, &info, &err), &err);
    assert_int_equal(info.kind, IO_ENTRY_FOLDER);
}

static void only_regular_files_are_opened(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_file *file = NULL;
    assert_int_equal(mkfifo(in_folder("fifo"), 0666), 0);
    assert_int_equal(io->ops->file_open(io, folder, &file, &err), -EISDIR);
    assert_int_equal(io->ops->file_open(io, in_folder("fifo"), &file, &err), -ENXIO);
    assert_int_equal(io->ops->file_open(io, in_folder("absent"), &file, &err), -ENOENT);
    assert_null(file);
    test_write_file(in_folder("a"), "abc", 3);
    assert_ok(io->ops->file_open(io, in_folder("a"), &file, &err), &err);
    assert_int_equal(io->ops->file_size(file), 3);
    io->ops->file_close(file);
}

struct entry_log {
    char text[4000];
    int count, stop_after;
};

static int note_entry(void *context, const struct io_entry *entry)
{
    static const char marks[] = {'f', 'd', 'o'};
    struct entry_log *log = context;
    size_t used = strlen(log->text);
    snprintf(log->text + used, sizeof log->text - used, "%c %s\n", marks[entry->kind], entry->name);
    return ++log->count == log->stop_after ? 17 : 0;
}

static void entries_are_listed_in_byte_order_with_their_types(void **state)
{
    (void)state;
    struct err err = {0};
    static const char *const names[] = {"b", "a",        "B",   ".hidden", "10",
                                        "9", "\xc3\xa4", "a b", "\x7f"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        test_write_file(in_folder(names[i]), "", 0);
    assert_int_equal(mkdir(in_folder("folder"), 0777), 0);
    assert_int_equal(symlink("folder", in_folder("to-folder")), 0);
    assert_int_equal(symlink("a", in_folder("to-file")), 0);
    assert_int_equal(symlink("nowhere", in_folder("to-nothing")), 0);
    struct entry_log log = {.text = ""};
    assert_ok(io->names->list(io, folder, note_entry, &log, &err), &err);
    assert_string_equal(
        log.text, "f .hidden\nf 10\nf 9\nf B\nf a\nf a b\nf b\nd folder\nf to-file\nd to-folder\n"
                  "o to-nothing\nf \x7f\nf \xc3\xa4\n");
    struct entry_log cut = {.stop_after = 3};
    assert_int_equal(io->names->list(io, folder, note_entry, &cut, &err), 17);
    assert_int_equal(cut.count, 3);
    struct entry_log none = {.text = ""};
    assert_ok(io->names->list(io, in_folder("folder"), note_entry, &none, &err), &err);
    assert_int_equal(none.count, 0);
    assert_int_equal(io->names->list(io, in_folder("absent"), note_entry, &none, &err), -ENOENT);
    assert_int_equal(io->names->list(io, in_folder("a"), note_entry, &none, &err), -ENOTDIR);
}

/* Checks that the text's next line is the entry's name, and advances past it. */
static int compare_with_ls(void *context, const struct io_entry *entry)
{
    const char **at = context;
    size_t bytes = strlen(entry->name);
    if (strcmp(entry->name, "list.txt") == 0)
        return 0;
    if (strncmp(*at, entry->name, bytes) != 0 || (*at)[bytes] != '\n')
        return -EPROTO;
    *at += bytes + 1;
    return 0;
}

static void ten_thousand_entries_are_listed_like_ls(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(test_run("cd '%s' && seq 1 10000 | xargs touch && list=$(LC_ALL=C ls) && echo "
                              "\"$list\" >list.txt",
                              folder),
                     0);
    size_t bytes;
    char *expected = (char *)test_read_file(in_folder("list.txt"), &bytes);
    const char *at = expected;
    assert_ok(io->names->list(io, folder, compare_with_ls, &at, &err), &err);
    assert_int_equal(*at, '\0');
    free(expected);
}

static void folders_are_created_with_their_parents(void **state)
{
    (void)state;
    struct err err = {0};
    assert_ok(io->names->make_folder(io, in_folder("a/b//c/"), &err), &err);
    assert_true(exists(in_folder("a/b/c")));
    assert_ok(io->names->make_folder(io, in_folder("a/b/c"), &err), &err);
    assert_ok(io->names->make_folder(io, "/", &err), &err);
    assert_ok(io->names->make_folder(io, ".", &err), &err);
    test_write_file(in_folder("file"), "", 0);
    assert_int_equal(io->names->make_folder(io, in_folder("file"), &err), -EEXIST);
    assert_int_equal(io->names->make_folder(io, in_folder("file/x"), &err), -EEXIST);
    assert_string_equal(err.path, in_folder("file")); /* the entry that blocks the operation */
}

static void trees_are_removed_without_following_links(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(
        test_run("cd '%s' && mkdir -p keep tree/a/b/c tree/d && touch keep/me tree/a/b/x tree/y "
                 "&& ln -s ../keep tree/link && ln -s keep link && touch file",
                 folder),
        0);
    assert_ok(io->names->remove(io, in_folder("tree"), &err), &err);
    assert_false(exists(in_folder("tree")));
    assert_ok(io->names->remove(io, in_folder("link"), &err), &err);
    assert_false(exists(in_folder("link")));
    assert_true(exists(in_folder("keep/me")));
    assert_ok(io->names->remove(io, in_folder("file"), &err), &err);
    assert_false(exists(in_folder("file")));
    assert_int_equal(io->names->remove(io, in_folder("file"), &err), -ENOENT);
    struct entry_log log = {.text = ""};
    assert_ok(io->names->list(io, folder, note_entry, &log, &err), &err);
    assert_string_equal(log.text, "d keep\n"); /* no temporaries are left */
}

static void whole_files_are_written_and_read(void **state)
{
    (void)state;
    struct err err = {0};
    char *data = NULL;
    size_t bytes = 99;
    assert_ok(io_write_file(io, in_folder("a"), "first", 5, false, &err), &err);
    assert_ok(io_read_file(io, in_folder("a"), 5, &data, &bytes, &err), &err);
    assert_int_equal(bytes, 5);
    assert_string_equal(data, "first");
    free(data);
    data = NULL;
    assert_int_equal(io_write_file(io, in_folder("a"), "second", 6, false, &err), -EEXIST);
    assert_ok(io_write_file(io, in_folder("a"), "", 0, true, &err), &err);
    assert_ok(io_read_file(io, in_folder("a"), 0, &data, &bytes, &err), &err);
    assert_int_equal(bytes, 0);
    assert_string_equal(data, "");
    free(data);
    data = NULL;
    assert_ok(io_write_file(io, in_folder("a"), "third", 5, true, &err), &err);
    assert_int_equal(io_read_file(io, in_folder("a"), 4, &data, &bytes, &err), -EFBIG);
    assert_non_null(strstr(err.expected, "4"));
    assert_int_equal(io_read_file(io, in_folder("absent"), 4, &data, &bytes, &err), -ENOENT);
    assert_null(data);
    assert_int_equal(io_write_file(io, in_folder("absent/a"), "x", 1, false, &err), -ENOENT);
    assert_non_null(strstr(err.advice, "create the folder"));
    struct entry_log log = {.text = ""};
    assert_ok(io->names->list(io, folder, note_entry, &log, &err), &err);
    assert_string_equal(log.text, "f a\n");
}

static void a_short_file_is_an_error_with_an_offset(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_queue *queue = NULL;
    struct io_file *file = NULL;
    char data[10];
    test_write_file(in_folder("a"), "0123456789", 10);
    assert_ok(io->ops->queue_open(io, 4, &queue, &err), &err);
    assert_ok(io->ops->file_open(io, in_folder("a"), &file, &err), &err);
    assert_ok(io_read_exact(queue, io, file, "a", 3, data, 7, &err), &err);
    assert_memory_equal(data, "3456789", 7);
    assert_ok(io_read_exact(queue, io, file, "a", 10, data, 0, &err), &err);
    assert_int_equal(io_read_exact(queue, io, file, "a", 4, data, 7, &err), -ENODATA);
    char line[ERR_LINE_BYTES_MAX];
    assert_string_equal(err_format(&err, line, sizeof line),
                        "the file ends too early: a at 4: expected 7 bytes, found 6; the file was "
                        "truncated or does not match its description; fetch or create it again");
    assert_int_equal(io_read_exact(queue, io, file, "a", 100, data, 1, &err), -ENODATA);
    io->ops->file_close(file);
    io->ops->queue_close(queue);
}

static void paths_are_joined_and_split(void **state)
{
    (void)state;
    char path[IO_PATH_BYTES_MAX];
    static const char *const joined[][3] = {
        {"a", "b", "a/b"},
        {"", "b", "b"},
        {".", "b", "b"},
        {"/", "b", "/b"},
        {"a/", "b/c", "a/b/c"},
        {"s3://bucket", "x", "s3://bucket/x"},
        {"file:.", "x", "file:./x"},
    };
    for (size_t i = 0; i < sizeof joined / sizeof joined[0]; i++) {
        assert_int_equal(io_join_path(joined[i][0], joined[i][1], path, NULL), 0);
        assert_string_equal(path, joined[i][2]);
    }
    static const char *const parents[][2] = {
        {"a/b", "a"},
        {"a", "."},
        {"/a", "/"},
        {"a/b/", "a"},
        {"/a/b/c", "/a/b"},
        {"/", "/"},
        {"file:///x", "file:///"},
        {"s3://bucket/x", "s3://bucket"},
        {"file:x", "file:."},
        {"", "."},
    };
    for (size_t i = 0; i < sizeof parents / sizeof parents[0]; i++) {
        io_parent_path(parents[i][0], path);
        assert_string_equal(path, parents[i][1]);
    }
    strcpy(path, "a");
    assert_int_equal(io_join_path(path, "b", path, NULL), 0);
    assert_string_equal(path, "a/b");
    char long_name[IO_PATH_BYTES_MAX];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(io_join_path("", long_name, path, NULL), 0);
    assert_int_equal(io_join_path("a", long_name, path, NULL), -ENAMETOOLONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_url_scheme_selects_the_backend, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(file_urls_and_paths_name_the_same_file, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(stat_reports_type_size_and_time, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(
            an_identity_belongs_to_the_open_file_and_changes_with_its_content, scratch_set_up,
            scratch_tear_down),
        cmocka_unit_test_setup_teardown(paths_are_resolved_in_every_spelling, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(only_regular_files_are_opened, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(entries_are_listed_in_byte_order_with_their_types,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(ten_thousand_entries_are_listed_like_ls, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(folders_are_created_with_their_parents, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(trees_are_removed_without_following_links, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(whole_files_are_written_and_read, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_short_file_is_an_error_with_an_offset, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(paths_are_joined_and_split, scratch_set_up,
                                        scratch_tear_down),
    };
    return engines_run(tests);
}
