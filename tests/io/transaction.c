/*
 * transaction — outputs appear atomically: order of durable calls, replacement, joining ranks,
 * sweeps.
 */
#include "io/file_util.h"
#include "tests/io/syscalls.h"
#include "tests/io/transaction_case.h"
#include "tests/support/engines.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static void a_folder_is_committed_in_this_order(void **state)
{
    (void)state;
    struct err err = {0};
    syscalls_record(folder);
    struct io_transaction *transaction = transaction_case_begin(&(struct io_transaction_options){
        .path = in_folder("out"), .commit_record = "train/b", .owner_id = "run-1", .attempt = 3});
    assert_ok(transaction_case_put(transaction, "a", "first", &err), &err);
    assert_ok(transaction_case_put(transaction, "train/b", "second", &err), &err);
    assert_ok(io->transactions->commit(transaction, &err), &err);
    assert_string_equal(syscalls_recorded(), "mkdir .tmp-out-run%2d1-3-NONCE\n"
                                             "fsync .\n"
                                             "create .tmp-out-run%2d1-3-NONCE/a\n"
                                             "fallocate .tmp-out-run%2d1-3-NONCE/a\n"
                                             "pwrite .tmp-out-run%2d1-3-NONCE/a\n"
                                             "fsync .tmp-out-run%2d1-3-NONCE/a\n"
                                             "fsync .tmp-out-run%2d1-3-NONCE\n"
                                             "mkdir .tmp-out-run%2d1-3-NONCE/train\n"
                                             "fsync .tmp-out-run%2d1-3-NONCE\n"
                                             "create .tmp-out-run%2d1-3-NONCE/train/b\n"
                                             "fallocate .tmp-out-run%2d1-3-NONCE/train/b\n"
                                             "pwrite .tmp-out-run%2d1-3-NONCE/train/b\n"
                                             "fsync .tmp-out-run%2d1-3-NONCE/train/b\n"
                                             "fsync .tmp-out-run%2d1-3-NONCE/train\n"
                                             "fsync .tmp-out-run%2d1-3-NONCE\n"
                                             "renameat2 .tmp-out-run%2d1-3-NONCE -> out\n"
                                             "fsync .\n");
    transaction_case_check_content("out/a", "first");
    transaction_case_check_content("out/train/b", "second");
    transaction_case_check_entries("out\n");
}

static void a_single_file_becomes_durable_in_this_order(void **state)
{
    (void)state;
    struct err err = {0};
    syscalls_record(folder);
    assert_ok(io_write_file(io, in_folder("x.json"), "text", 4, false, &err), &err);
    assert_ok(io_write_file(io, in_folder("x.json"), "more", 4, true, &err), &err);
    assert_string_equal(syscalls_recorded(), "create .tmp-x.json-0-0-NONCE\n"
                                             "fallocate .tmp-x.json-0-0-NONCE\n"
                                             "pwrite .tmp-x.json-0-0-NONCE\n"
                                             "fsync .tmp-x.json-0-0-NONCE\n"
                                             "renameat2 .tmp-x.json-0-0-NONCE -> x.json\n"
                                             "fsync .\n"
                                             "create .tmp-x.json-0-0-NONCE\n"
                                             "fallocate .tmp-x.json-0-0-NONCE\n"
                                             "pwrite .tmp-x.json-0-0-NONCE\n"
                                             "fsync .tmp-x.json-0-0-NONCE\n"
                                             "rename .tmp-x.json-0-0-NONCE -> x.json\n"
                                             "fsync .\n");
    transaction_case_check_content("x.json", "more");
}

static void a_removed_folder_is_renamed_durably_before_it_is_emptied(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(mkdir(in_folder("old"), 0777), 0);
    test_write_file(in_folder("old/a"), "x", 1);
    syscalls_record(folder);
    assert_ok(io->names->remove(io, in_folder("old"), &err), &err);
    const char *expected = "rename old -> .tmp-old-removed-0-NONCE\n"
                           "fsync .\n";
    assert_memory_equal(syscalls_recorded(), expected, strlen(expected));
    transaction_case_check_entries("");
}

static void created_folders_are_durable(void **state)
{
    (void)state;
    struct err err = {0};
    syscalls_record(folder);
    assert_ok(io->names->make_folder(io, in_folder("a/b"), &err), &err);
    assert_string_equal(syscalls_recorded(), "mkdir a\nfsync .\nmkdir a/b\nfsync a\n");
}

static void finalize_sets_the_size(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_file *file;
    struct stat info;
    struct io_transaction *transaction = transaction_case_begin(
        &(struct io_transaction_options){.path = in_folder("out"), .commit_record = "grown"});
    assert_ok(io->transactions->create(transaction, "cut", 1 << 20, &file, &err), &err);
    assert_ok(io_write_exact(transaction_case_queue, io, file, "cut", 0, "0123456789", 10, &err),
              &err);
    assert_ok(io->transactions->finalize(transaction, file, 7, &err), &err);
    assert_ok(io->transactions->create(transaction, "empty", 0, &file, &err), &err);
    assert_ok(io->transactions->finalize(transaction, file, 0, &err), &err);
    assert_ok(io->transactions->create(transaction, "grown", 0, &file, &err), &err);
    assert_ok(io->transactions->finalize(transaction, file, 5000, &err), &err);
    assert_ok(io->transactions->commit(transaction, &err), &err);
    transaction_case_check_content("out/cut", "0123456");
    transaction_case_check_content("out/empty", "");
    assert_int_equal(stat(in_folder("out/grown"), &info), 0);
    assert_int_equal(info.st_size, 5000);
    assert_int_equal(stat(in_folder("out/cut"), &info), 0);
    assert_true(info.st_blocks * 512 <= 8192); /* the unused reservation is released */
}

static void replacing_leaves_only_the_new_output(void **state)
{
    (void)state;
    /* with and without RENAME_EXCHANGE */
    for (int unsupported = 0; unsupported < 2; unsupported++) {
        struct err err = {0};
        if (unsupported)
            syscalls_fail("renameat2", 0, -EINVAL);
        for (int round = 0; round < 3; round++) {
            const char *texts[] = {"one", "two", "three"};
            struct io_transaction *transaction =
                transaction_case_begin(&(struct io_transaction_options){
                    .path = in_folder("out/"), .replace = true, .commit_record = texts[round]});
            assert_ok(transaction_case_put(transaction, texts[round], texts[round], &err), &err);
            /* the old content stays until the commit */
            if (round > 0)
                transaction_case_check_content(round == 1 ? "out/one" : "out/two",
                                               texts[round - 1]);
            assert_ok(io->transactions->commit(transaction, &err), &err);
            char path[32];
            snprintf(path, sizeof path, "out/%s", texts[round]);
            transaction_case_check_content(path, texts[round]);
            transaction_case_check_entries("out\n");
        }
        assert_false(transaction_case_exists("out/one"));
        assert_false(transaction_case_exists("out/two"));
        assert_int_equal(syscalls_failed_count() > 0, unsupported);
        assert_ok(io->names->remove(io, in_folder("out"), &err), &err);
    }
}

static void ranks_join_the_first_ranks_staging_path(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_transaction_options options = {
        .path = in_folder("out"), .commit_record = "manifest", .owner_id = "r"};
    struct io_transaction *first = transaction_case_begin(&options), *other = NULL, *third = NULL;
    assert_ok(
        io->transactions->join(io, &options, io->transactions->staging_path(first), &other, &err),
        &err);
    assert_ok(
        io->transactions->join(io, &options, io->transactions->staging_path(first), &third, &err),
        &err);
    assert_string_equal(io->transactions->staging_path(first),
                        io->transactions->staging_path(other));
    assert_ok(transaction_case_put(first, "rank-0", "zero", &err), &err);
    assert_ok(transaction_case_put(other, "rank-1", "one", &err), &err);
    assert_int_equal(transaction_case_put(other, "rank-0", "again", &err), -EEXIST);
    io->transactions->leave(other);
    io->transactions->abort(third); /* an abort by a joined rank removes nothing of other ranks */
    assert_ok(transaction_case_put(first, "manifest", "2 ranks", &err), &err);
    assert_ok(io->transactions->commit(first, &err), &err);
    transaction_case_check_content("out/rank-0", "zero");
    transaction_case_check_content("out/rank-1", "one");
    assert_int_equal(io->transactions->join(io, &options, in_folder("nowhere"), &other, &err),
                     -ENOENT);
    assert_string_not_equal(err.advice, "");
    io->transactions->leave(NULL);
}

static void ranks_write_their_ranges_of_one_file(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_transaction_options options = {.path = in_folder("out"), .commit_record = "manifest"};
    struct io_transaction *sets[3] = {transaction_case_begin(&options)};
    struct io_file *files[3];
    enum { WRITTEN_BYTES = 2 * IO_ALIGN_BYTES + 10 };
    char text[3 * IO_ALIGN_BYTES];
    for (int r = 0; r < 3; r++)
        memset(text + r * IO_ALIGN_BYTES, 'a' + r, IO_ALIGN_BYTES);
    text[WRITTEN_BYTES] = '\0';
    for (int r = 1; r < 3; r++)
        assert_ok(io->transactions->join(io, &options, io->transactions->staging_path(sets[0]),
                                         &sets[r], &err),
                  &err);
    assert_int_equal(io->transactions->open(sets[1], "common", &files[1], &err), -ENOENT);
    assert_non_null(strstr(err.path, "common"));
    assert_ok(io->transactions->create(sets[0], "common", WRITTEN_BYTES, &files[0], &err), &err);
    for (int r = 1; r < 3; r++)
        assert_ok(io->transactions->open(sets[r], "common", &files[r], &err), &err);
    /* in any order */
    for (int r = 2; r >= 0; r--) {
        assert_ok(io_write_exact(transaction_case_queue, io, files[r], "common",
                                 (uint64_t)r * IO_ALIGN_BYTES, text + r * IO_ALIGN_BYTES,
                                 r < 2 ? IO_ALIGN_BYTES : 10, &err),
                  &err);
        assert_ok(io->transactions->finalize(sets[r], files[r], WRITTEN_BYTES, &err), &err);
        if (r > 0)
            io->transactions->leave(sets[r]);
    }
    assert_ok(transaction_case_put(sets[0], "manifest", "common", &err), &err);
    assert_ok(io->transactions->commit(sets[0], &err), &err);
    transaction_case_check_content("out/common", text);
}

static void the_commit_record_is_the_last_file(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_file *file;
    struct io_transaction *transaction = transaction_case_begin_named("out", NULL);
    assert_ok(io->transactions->create(transaction, "a", 0, &file, &err), &err);
    assert_int_equal(transaction_case_put(transaction, "manifest", "a", &err), -EINVAL);
    assert_string_equal(err.found, "\"an unfinished file\"");
    assert_ok(io->transactions->finalize(transaction, file, 0, &err), &err);
    assert_ok(transaction_case_put(transaction, "manifest", "a", &err), &err);
    assert_int_equal(transaction_case_put(transaction, "b", "late", &err), -EINVAL);
    assert_string_equal(err.expected, "\"manifest\" last");
    assert_ok(io->transactions->commit(transaction, &err), &err);
    transaction = transaction_case_begin_named("without", NULL);
    assert_ok(transaction_case_put(transaction, "a", "x", &err), &err);
    assert_int_equal(io->transactions->commit(transaction, &err), -EINVAL);
    transaction_case_check_entries("out\n");
}

static void only_the_first_rank_commits(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_transaction_options options = {.path = in_folder("out"), .commit_record = "manifest"};
    struct io_transaction *first = transaction_case_begin(&options), *other = NULL;
    assert_ok(
        io->transactions->join(io, &options, io->transactions->staging_path(first), &other, &err),
        &err);
    assert_int_equal(io->transactions->commit(other, &err), -EINVAL);
    assert_false(transaction_case_exists("out"));
    assert_ok(transaction_case_put(first, "manifest", "alone", &err), &err);
    assert_ok(io->transactions->commit(first, &err), &err);
    assert_true(transaction_case_exists("out"));
}

static void a_sweep_spares_its_owners_files_and_complete_steps(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_transaction *a = transaction_case_begin_named("step-00001000", "run"),
                          *b = transaction_case_begin_named("step-00001000", "other-run");
    struct io_transaction *c = transaction_case_begin_named("x", NULL);
    assert_ok(transaction_case_put(b, "deep/file", "x", &err), &err);
    assert_int_equal(
        test_run(
            "cd '%s' && mkdir step-00000500 .hidden .tmp-strange && touch .tmp-file .tmp- .tmpx",
            folder),
        0);
    /* b, c, and three without an owner */
    assert_int_equal(io->transactions->sweep(io, folder, "run", NULL, &err), 5);
    assert_ok(transaction_case_put(a, "manifest", "x", &err), &err);
    assert_ok(io->transactions->commit(a, &err), &err);
    transaction_case_check_entries(".hidden\n.tmpx\nstep-00000500\nstep-00001000\n");
    assert_int_equal(io->transactions->sweep(io, folder, NULL, NULL, &err), 0);
    io->transactions->abort(b);
    io->transactions->abort(c);
    assert_int_equal(io->transactions->sweep(io, in_folder("absent"), NULL, NULL, &err), -ENOENT);
}

static bool has_prefix_x(const char *entry_name)
{
    char name[IO_NAME_BYTES_MAX];
    return io_parse_temporary(entry_name, name) && strcmp(name, "x") == 0;
}

static void a_sweep_removes_only_known_names(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_transaction *x = transaction_case_begin_named("x", "run-1"),
                          *y = transaction_case_begin_named("y", "run-1");
    assert_ok(transaction_case_put(x, "manifest", "x", &err), &err);
    assert_int_equal(test_run("cd '%s' && mkdir .tmp-x .tmp-mine", folder), 0);
    assert_int_equal(io->transactions->sweep(io, folder, NULL, has_prefix_x, &err), 1);
    assert_true(io->transactions->commit(x, &err) < 0);
    assert_ok(transaction_case_put(y, "manifest", "y", &err), &err);
    assert_ok(io->transactions->commit(y, &err), &err);
    transaction_case_check_entries(".tmp-mine\n.tmp-x\ny\n");
}

int main(void)
{
#define CASE(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, transaction_case_set_up, transaction_case_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_folder_is_committed_in_this_order),
        CASE(a_single_file_becomes_durable_in_this_order),
        CASE(a_removed_folder_is_renamed_durably_before_it_is_emptied),
        CASE(created_folders_are_durable),
        CASE(finalize_sets_the_size),
        CASE(replacing_leaves_only_the_new_output),
        CASE(ranks_join_the_first_ranks_staging_path),
        CASE(ranks_write_their_ranges_of_one_file),
        CASE(the_commit_record_is_the_last_file),
        CASE(only_the_first_rank_commits),
        CASE(a_sweep_spares_its_owners_files_and_complete_steps),
        CASE(a_sweep_removes_only_known_names),
    };
    return engines_run(tests);
}
