/*
 * transaction_names — names of transactions and their files: which are refused, which are not
 * replaced, and how temporaries are named.
 */
#include "io/file_util.h"
#include "tests/io/syscalls.h"
#include "tests/io/transaction_case.h"
#include "tests/support/engines.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void existing_names_are_refused_at_begin_and_commit(void **state)
{
    (void)state;
    struct err err = {0};
    for (int single = 0; single < 2; single++) {
        const char *name = single ? "file" : "out";
        struct io_transaction_options options = {
            .path = in_folder(name), .single_file = single, .commit_record = "a"};
        struct io_transaction *transaction = transaction_case_begin(&options), *second = NULL;
        assert_ok(transaction_case_put(transaction, single ? "" : "a", "mine", &err), &err);
        test_write_file(in_folder(name), "somebody else's", 15); /* in the meantime */
        assert_int_equal(io->transactions->begin(io, &options, &second, &err), -EEXIST);
        assert_null(second);
        assert_int_equal(io->transactions->commit(transaction, &err), -EEXIST);
        assert_string_not_equal(err.advice, "");
        transaction_case_check_content(name, "somebody else's");
        assert_int_equal(unlink(in_folder(name)), 0);
    }
    transaction_case_check_entries("");
}

static void an_empty_folder_of_the_final_name_is_refused_too(void **state)
{
    (void)state;
    for (int unsupported = 0; unsupported < 2; unsupported++) {
        struct err err = {0};
        if (unsupported)
            syscalls_fail("renameat2", 0, -EINVAL);
        struct io_transaction *transaction = transaction_case_begin_named("out", NULL);
        assert_ok(transaction_case_put(transaction, "manifest", "mine", &err), &err);
        assert_int_equal(mkdir(in_folder("out"), 0777), 0);
        assert_int_equal(io->transactions->commit(transaction, &err), -EEXIST);
        assert_false(transaction_case_exists("out/manifest"));
        assert_int_equal(rmdir(in_folder("out")), 0);
        transaction_case_check_entries("");
    }
}

static void files_replace_only_files_and_folders_only_folders(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_transaction *transaction = NULL;
    test_write_file(in_folder("file"), "x", 1);
    assert_int_equal(mkdir(in_folder("folder"), 0777), 0);
    struct io_transaction_options over_file = {.path = in_folder("file"), .replace = true};
    struct io_transaction_options over_folder = {
        .path = in_folder("folder"), .replace = true, .single_file = true};
    assert_int_equal(io->transactions->begin(io, &over_file, &transaction, &err), -EEXIST);
    assert_int_equal(io->transactions->begin(io, &over_folder, &transaction, &err), -EEXIST);
    assert_null(transaction);
    transaction_case_check_entries("file\nfolder\n");
}

static void names_in_a_transaction_are_private_and_unique(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_file *file = NULL;
    static const char *const wrong[] = {"",       ".",    "..", "../x", "a/../../x",
                                        "/etc/x", "a//b", "a/", "a/."};
    struct io_transaction *transaction = transaction_case_begin_named("out", NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(io->transactions->create(transaction, wrong[i], 0, &file, &err), -EINVAL);
    assert_ok(transaction_case_put(transaction, "a", "x", &err), &err);
    assert_int_equal(io->transactions->create(transaction, "a", 0, &file, &err), -EEXIST);
    assert_null(file);
    io->transactions->abort(transaction);
    transaction_case_check_entries("");
}

static void invalid_final_names_are_refused(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_transaction *transaction = NULL;
    static const char *const wrong[] = {"", "/", ".", "..", "x/..", "x/.", ".tmp-x", "a/.tmp-x"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(io->transactions->begin(io,
                                                 &(struct io_transaction_options){.path = wrong[i]},
                                                 &transaction, &err),
                         -EINVAL);
    assert_int_equal(
        io->transactions->begin(io, &(struct io_transaction_options){.path = in_folder("no/x")},
                                &transaction, &err),
        -ENOENT);
    assert_null(transaction);
}

static void long_names_get_truncated_temporary_names(void **state)
{
    (void)state;
    struct err err = {0};
    char name[256], owner[65];
    memset(name, 'n', 255);
    name[255] = '\0';
    memset(owner, '-', 64);
    owner[64] = '\0';
    struct io_transaction *transaction =
        transaction_case_begin(&(struct io_transaction_options){.path = in_folder(name),
                                                                .single_file = true,
                                                                .owner_id = "a.long_owner",
                                                                .attempt = UINT64_MAX});
    assert_ok(transaction_case_put(transaction, "", "x", &err), &err);
    assert_ok(io->transactions->commit(transaction, &err), &err);
    transaction_case_check_content(name, "x");
    transaction = transaction_case_begin(&(struct io_transaction_options){
        .path = in_folder("s"), .owner_id = owner, .attempt = UINT64_MAX});
    io->transactions->abort(transaction);
    char too_long[66] = "";
    memset(too_long, 'o', 65);
    struct io_transaction_options refused = {.path = in_folder("s"), .owner_id = too_long};
    assert_int_equal(io->transactions->begin(io, &refused, &transaction, &err), -ENAMETOOLONG);
}

static void temporary_names_contain_the_final_name(void **state)
{
    (void)state;
    static const struct {
        const char *entry_name, *name; /* NULL: not a temporary */
    } rows[] = {
        {".tmp-step-00000007-run%2d1-3-0123456789abcdef", "step-00000007"},
        {".tmp-x-+replaced-0-0123456789abcdef", "x"},
        {".tmp--0-0-0-0123456789abcdef", "-0"},
        {".tmp-old-removed-0-0123456789abcdef", ""},
        {".tmp-old-run-0-0123456789abcdef", "old"},
        {".tmp-", NULL},
        {".tmp-mine", NULL},
        {".tmp-x-0-0-0123456789abcde", NULL},
        {".tmp-x-0-0-0123456789abcdef0", NULL},
        {".tmp-x-0-0-0123456789ABCDEF", NULL},
        {".tmp-x-0-a-0123456789abcdef", NULL},
        {".tmp-x-0--0123456789abcdef", NULL},
        {".tmp-x--0-0123456789abcdef", NULL},
        {".tmp-0-0-0123456789abcdef", NULL},
        {".tmp--0-0-0123456789abcdef", NULL},
        {"tmp-x-0-0-0123456789abcdef", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[IO_NAME_BYTES_MAX];
        assert_int_equal(io_parse_temporary(rows[i].entry_name, name), rows[i].name != NULL);
        if (rows[i].name)
            assert_string_equal(name, rows[i].name);
    }
}

static void a_transaction_of_a_relative_path_stays_in_its_folder(void **state)
{
    (void)state;
    struct err err = {0};
    char before[TEST_PATH_BYTES_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    assert_ok(io_write_file(io, "plain", "x", 1, false, &err), &err);
    assert_ok(io_write_file(io, "file:url", "y", 1, false, &err), &err);
    struct io_transaction *transaction = transaction_case_begin(
        &(struct io_transaction_options){.path = "set", .commit_record = "sub/a"});
    assert_ok(transaction_case_put(transaction, "sub/a", "z", &err), &err);
    assert_ok(io->transactions->commit(transaction, &err), &err);
    assert_int_equal(chdir(before), 0);
    transaction_case_check_content("set/sub/a", "z");
    transaction_case_check_entries("plain\nset\nurl\n");
}

int main(void)
{
#define CASE(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, transaction_case_set_up, transaction_case_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(existing_names_are_refused_at_begin_and_commit),
        CASE(an_empty_folder_of_the_final_name_is_refused_too),
        CASE(files_replace_only_files_and_folders_only_folders),
        CASE(names_in_a_transaction_are_private_and_unique),
        CASE(invalid_final_names_are_refused),
        CASE(long_names_get_truncated_temporary_names),
        CASE(temporary_names_contain_the_final_name),
        CASE(a_transaction_of_a_relative_path_stays_in_its_folder),
    };
    return engines_run(tests);
}
