/*
 * io_probe — the reported properties of a file system match stat, findmnt and the operations that
 * succeed there.
 */
#include "cli/doctor/io_probe.h"
#include "tests/support/test.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[TEST_PATH_BYTES_MAX];

static int set_up(void **state)
{
    (void)state;
    test_make_folder(folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    chmod(folder, 0700);
    test_remove_folder(folder);
    return 0;
}

static void read_output(char *text, size_t bytes, const char *command, const char *path)
{
    assert_int_equal(test_run_output(text, bytes, "%s '%s'", command, path), 0);
    text[strcspn(text, "\n")] = '\0';
}

static void expect_type(const char *path)
{
    struct io_probe probe;
    struct err err = {0};
    char text[256];
    assert_ok(io_probe_folder(path, false, &probe, &err), &err);
    unsigned long long blocks, block_bytes;
    read_output(text, sizeof text, "stat -f -c '%b %S'", path);
    assert_int_equal(sscanf(text, "%llu %llu", &blocks, &block_bytes), 2);
    assert_int_equal(probe.total_bytes, blocks * block_bytes);
    assert_true(probe.free_bytes <= probe.total_bytes);
    if (test_run("command -v findmnt >/dev/null"))
        test_skip("no findmnt here");
    if (test_run("findmnt -T '%s' >/dev/null", path))
        test_skip("findmnt knows no mount of this folder, as in a chroot");
    read_output(text, sizeof text, "findmnt -n -o FSTYPE -T", path);
    assert_string_equal(probe.type, text);
}

static void file_system_type_and_size_match_other_tools(void **state)
{
    (void)state;
    expect_type(folder);
}

static void an_in_memory_file_system_is_recognized(void **state)
{
    (void)state;
    struct io_probe probe;
    struct err err = {0};
    if (access("/dev/shm", W_OK))
        test_skip("no writable /dev/shm");
    expect_type("/dev/shm");
    assert_ok(io_probe_folder("/dev/shm", false, &probe, &err), &err);
    assert_true(probe.is_memory);
    assert_false(probe.is_network);
    assert_int_equal(probe.write_status, 0);
    assert_int_equal(probe.noreplace_status, 0);
    assert_int_equal(probe.exchange_status, 0);
}

static void nothing_is_left_behind(void **state)
{
    (void)state;
    struct io_probe probe;
    struct err err = {0};
    char text[64];
    assert_ok(io_probe_folder(folder, false, &probe, &err), &err);
    assert_int_equal(probe.write_status, 0);
    assert_int_equal(probe.lock_status, 0);
    read_output(text, sizeof text, "ls -A", folder);
    assert_string_equal(text, "");
}

static void a_file_path_probes_its_folder(void **state)
{
    (void)state;
    struct io_probe probe, folder_probe;
    struct err err = {0};
    char path[TEST_PATH_BYTES_MAX + 16];
    snprintf(path, sizeof path, "%s/dataset.json", folder);
    test_write_file(path, "{}", 2);
    assert_ok(io_probe_folder(path, false, &probe, &err), &err);
    assert_ok(io_probe_folder(folder, false, &folder_probe, &err), &err);
    assert_string_equal(probe.type, folder_probe.type);
    assert_int_equal(probe.total_bytes, folder_probe.total_bytes);
}

static void an_unwritable_folder_is_reported_with_the_reason(void **state)
{
    (void)state;
    struct io_probe probe;
    struct err err = {0};
    assert_int_equal(chmod(folder, 0555), 0);
    uid_t user = geteuid();
    if (user == 0 && seteuid(65534)) /* root may write anywhere */
        test_skip("can't become nobody");
    bool is_readable = eaccess(folder, R_OK | X_OK) == 0;
    int status = is_readable ? io_probe_folder(folder, false, &probe, &err) : 0;
    if (user == 0)
        assert_int_equal(seteuid(0), 0);
    if (!is_readable)
        test_skip("nobody may not enter the folder");
    assert_ok(status, &err);
    assert_int_equal(probe.write_status, -EACCES);
    assert_true(probe.total_bytes > 0);
}

static void a_missing_path_is_named(void **state)
{
    (void)state;
    struct io_probe probe;
    struct err err = {0};
    char path[TEST_PATH_BYTES_MAX + 16];
    snprintf(path, sizeof path, "%s/absent", folder);
    assert_int_equal(io_probe_folder(path, false, &probe, &err), -ENOENT);
    assert_string_equal(err.path, path);
}

static void a_path_to_be_created_probes_its_parent(void **state)
{
    (void)state;
    struct io_probe probe;
    struct err err = {0};
    char path[TEST_PATH_BYTES_MAX + 32];
    snprintf(path, sizeof path, "file:%s/absent/and/below", folder);
    assert_ok(io_probe_folder(path, true, &probe, &err), &err);
    assert_string_equal(probe.folder, folder);
    assert_false(probe.exists);
    assert_ok(io_probe_folder(folder, true, &probe, &err), &err);
    assert_true(probe.exists);
    snprintf(path, sizeof path, "%s/file", folder);
    test_write_file(path, "", 0);
    assert_int_equal(io_probe_folder(path, true, &probe, &err), -ENOTDIR);
    assert_string_equal(err.path, path);
}

int __real_mkdirat(int folder_fd, const char *name, mode_t mode);
int __wrap_mkdirat(int folder_fd, const char *name, mode_t mode);

static bool is_full;

int __wrap_mkdirat(int folder_fd, const char *name, mode_t mode)
{
    if (!is_full || strcmp(name, "b") != 0)
        return __real_mkdirat(folder_fd, name, mode);
    errno = ENOSPC;
    return -1;
}

static void a_folder_that_fills_up_during_the_probe_is_reported_full(void **state)
{
    (void)state;
    struct io_probe probe;
    struct err err = {0};
    char leftovers[64];
    is_full = true;
    int status = io_probe_folder(folder, false, &probe, &err);
    is_full = false;
    assert_ok(status, &err);
    assert_int_equal(probe.write_status, -ENOSPC);
    read_output(leftovers, sizeof leftovers, "ls -A", folder);
    assert_string_equal(leftovers, "");
}

/* Compares with a rename by python3 through the C library. */
static void rename_support_matches_other_tools(void **state)
{
    (void)state;
    const char *python = test_need_python("ctypes");
    struct io_probe probe;
    struct err err = {0};
    char text[64];
    assert_ok(io_probe_folder(folder, false, &probe, &err), &err);
    assert_int_equal(
        test_run_output(
            text, sizeof text,
            "cd '%s' && '%s' -c \"import ctypes, os; c = ctypes.CDLL(None, use_errno=True)\n"
            "open('a', 'w').close(); open('b', 'w').close()\n"
            "print(*(0 if c.renameat2(-100, b'a', -100, b'b', f) == 0 else ctypes.get_errno() "
            "for f in (1, 2)))\"",
            folder, python),
        0);
    int no_replace, exchange;
    assert_int_equal(sscanf(text, "%d %d", &no_replace, &exchange), 2);
    assert_int_equal(probe.noreplace_status, no_replace == EEXIST ? 0 : -no_replace);
    assert_int_equal(probe.exchange_status, -exchange);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(file_system_type_and_size_match_other_tools, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_in_memory_file_system_is_recognized, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_left_behind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_path_probes_its_folder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unwritable_folder_is_reported_with_the_reason, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_folder_that_fills_up_during_the_probe_is_reported_full,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_missing_path_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_path_to_be_created_probes_its_parent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rename_support_matches_other_tools, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
