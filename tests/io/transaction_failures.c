/*
 * transaction_failures — transactions that fail, are aborted or are swept leave nothing behind.
 */
#include "io/file_util.h"
#include "tests/io/syscalls.h"
#include "tests/io/transaction_case.h"
#include "tests/support/engines.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <string.h>

static void abort_removes_everything(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_file *file;
    struct io_transaction *transaction = transaction_case_begin_named("out", NULL);
    assert_ok(transaction_case_put(transaction, "a/b", "x", &err), &err);
    assert_ok(io->transactions->create(transaction, "open", 1000, &file, &err), &err);
    io->transactions->abort(transaction);
    transaction = transaction_case_begin(
        &(struct io_transaction_options){.path = in_folder("file"), .single_file = true});
    io->transactions->abort(transaction); /* aborts before it has a file */
    transaction = transaction_case_begin(
        &(struct io_transaction_options){.path = in_folder("file"), .single_file = true});
    assert_ok(io->transactions->create(transaction, "", 1000, &file, &err), &err);
    io->transactions->abort(transaction);
    io->transactions->abort(NULL);
    transaction_case_check_entries("");
}

static void an_open_file_prevents_the_commit(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_file *file;
    struct io_transaction *transaction = transaction_case_begin_named("out", NULL);
    assert_ok(io->transactions->create(transaction, "manifest", 10, &file, &err), &err);
    assert_int_equal(io->transactions->commit(transaction, &err), -EINVAL);
    transaction_case_check_entries("");
}

static void a_failed_fsync_is_not_retried_and_fails_the_transaction(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_file *file;
    struct io_transaction *transaction = transaction_case_begin_named("out", NULL);
    assert_ok(io->transactions->create(transaction, "manifest", 0, &file, &err), &err);
    assert_ok(io_write_exact(transaction_case_queue, io, file, "manifest", 0, "x", 1, &err), &err);
    syscalls_fail("fsync", 1, -EIO);
    syscalls_record(folder);
    assert_int_equal(io->transactions->finalize(transaction, file, 1, &err), -EIO);
    assert_string_equal(syscalls_recorded(), "fsync .tmp-out-0-0-NONCE/manifest\n");
    assert_non_null(strstr(err.path, "/manifest"));
    assert_int_equal(io->transactions->commit(transaction, &err), -EINVAL);
    transaction_case_check_entries("");
}

/* Each durable call in turn fails with each error: the name never appears, nothing is left, and the
 * error is returned. */
static void a_failure_at_any_operation_leaves_no_output(void **state)
{
    (void)state;
    static const char *const calls[] = {"mkdir",     "create", "fallocate", "pwrite",
                                        "ftruncate", "fsync",  "renameat2"};
    static const int codes[] = {-ENOSPC, -EIO, -EDQUOT, -EROFS};
    int failures = 0;
    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++) {
        for (unsigned nth = 1; nth <= 8; nth++) {
            int code = codes[(c + nth) % 4];
            struct err err = {0};
            struct io_transaction *transaction = NULL;
            struct io_file *file;
            syscalls_reset();
            syscalls_fail(calls[c], nth, code);
            int status = io->transactions->begin(
                io,
                &(struct io_transaction_options){.path = in_folder("out"), .commit_record = "c"},
                &transaction, &err);
            if (!status)
                status = transaction_case_put(transaction, "a", "text", &err);
            if (!status)
                status = transaction_case_put(transaction, "sub/b", "text", &err);
            if (!status)
                status = io->transactions->create(transaction, "c", 100, &file, &err);
            if (!status)
                status = io->transactions->finalize(transaction, file, 50, &err);
            bool committed = false, last = false;
            if (!status) {
                status = io->transactions->commit(transaction, &err);
                /* only the fsync after the rename failed: complete, but perhaps not durable */
                last = status && transaction_case_exists("out");
                committed = status == 0;
                transaction = NULL;
            }
            io->transactions->abort(transaction);
            if (syscalls_failed_count() > 0) {
                failures++;
                assert_int_equal(status, code);
                assert_int_equal(err.code, code);
                assert_string_not_equal(err.path, "");
                assert_false(committed);
                if (last)
                    assert_string_equal(calls[c], "fsync");
                else
                    transaction_case_check_entries("");
            } else {
                assert_true(committed);
            }
            syscalls_reset();
            if (transaction_case_exists("out"))
                assert_ok(io->names->remove(io, in_folder("out"), &err), &err);
        }
    }
    assert_in_range(failures, 15, 56);
}

static void an_interrupted_call_is_retried(void **state)
{
    (void)state;
    static const char *const calls[] = {"create", "fallocate", "ftruncate", "fsync", "close"};
    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++) {
        struct err err = {0};
        struct io_file *file;
        syscalls_reset();
        struct io_transaction *transaction = transaction_case_begin_named("out", NULL);
        syscalls_fail(calls[c], 1, -EINTR);
        assert_ok(io->transactions->create(transaction, "manifest", 100, &file, &err), &err);
        assert_ok(io_write_exact(transaction_case_queue, io, file, "a", 0, "x", 1, &err), &err);
        assert_ok(io->transactions->finalize(transaction, file, 1, &err), &err);
        assert_ok(io->transactions->commit(transaction, &err), &err);
        assert_int_equal(syscalls_failed_count(), 1);
        assert_ok(io->names->remove(io, in_folder("out"), &err), &err);
    }
}

static void a_kernel_einval_is_not_reported_as_wrong_usage(void **state)
{
    (void)state;
    static const int codes[] = {-EINVAL, -EBADMSG, -ENODATA, -EOPNOTSUPP};
    struct err err = {0};
    struct io_transaction *transaction;
    struct io_file *file;
    assert_ok(io->transactions->begin(io,
                                      &(struct io_transaction_options){.path = in_folder("out")},
                                      &transaction, &err),
              &err);
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        syscalls_fail("create", 1, codes[i]);
        assert_int_equal(io->transactions->create(transaction, "a", 0, &file, &err), -EIO);
        assert_int_equal(err.code, -EIO);
        assert_non_null(
            strstr(err.what, codes[i] == -EBADMSG ? "the data is damaged" : strerror(-codes[i])));
    }
    assert_ok(io->transactions->create(transaction, "a", 0, &file, &err), &err);
    syscalls_fail("fsync", 1, -EINVAL);
    assert_int_equal(io->transactions->finalize(transaction, file, 0, &err), -EIO);
    assert_int_equal(err.code, -EIO);
    assert_non_null(strstr(err.what, strerror(EINVAL)));
    io->transactions->abort(transaction);
    syscalls_reset();
}

/* Renames in order: the old entry to its backup; the new entry to its name (fails); the old entry
 * back. */
static void a_failed_replacement_restores_the_old_output(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_transaction *transaction = transaction_case_begin_named("out", NULL);
    assert_ok(transaction_case_put(transaction, "manifest", "old", &err), &err);
    assert_ok(io->transactions->commit(transaction, &err), &err);
    transaction = transaction_case_begin(&(struct io_transaction_options){
        .path = in_folder("out"), .replace = true, .commit_record = "b"});
    assert_ok(transaction_case_put(transaction, "b", "new", &err), &err);
    syscalls_refuse_rename_flags();
    syscalls_fail("rename", 2, -EIO);
    assert_int_equal(io->transactions->commit(transaction, &err), -EIO);
    assert_int_equal(syscalls_failed_count(), 1);
    transaction_case_check_content("out/manifest", "old");
    transaction_case_check_entries("out\n");
}

static void an_unremovable_old_step_is_left_to_the_sweep(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_transaction *transaction = transaction_case_begin_named("out", NULL);
    assert_ok(transaction_case_put(transaction, "manifest", "old", &err), &err);
    assert_ok(io->transactions->commit(transaction, &err), &err);
    transaction =
        transaction_case_begin(&(struct io_transaction_options){.path = in_folder("out"),
                                                                .replace = true,
                                                                .backup = in_folder("aside-out"),
                                                                .commit_record = "b"});
    assert_ok(transaction_case_put(transaction, "b", "new", &err), &err);
    syscalls_fail("rename", 1, -EIO);
    assert_ok(io->transactions->commit(transaction, &err), &err);
    assert_int_equal(syscalls_failed_count(), 1);
    transaction_case_check_content("out/b", "new");
    assert_int_equal(test_run("test \"$(cat '%s'/.tmp-*/manifest)\" = old", folder), 0);
    assert_int_equal(io->transactions->sweep(io, folder, NULL, NULL, &err), 1);
    transaction_case_check_entries("out\n");
}

static void commits_work_without_renameat2_flags(void **state)
{
    (void)state;
    struct err err = {0};
    syscalls_fail("renameat2", 0, -EINVAL);
    struct io_transaction *transaction = transaction_case_begin_named("out", NULL);
    assert_ok(transaction_case_put(transaction, "manifest", "text", &err), &err);
    assert_ok(io->transactions->commit(transaction, &err), &err);
    assert_ok(io_write_file(io, in_folder("file"), "text", 4, false, &err), &err);
    assert_int_equal(io_write_file(io, in_folder("file"), "other", 5, false, &err), -EEXIST);
    assert_int_equal(syscalls_failed_count(), 2);
    transaction_case_check_content("out/manifest", "text");
    transaction_case_check_content("file", "text");
    transaction_case_check_entries("file\nout\n");
}

static void a_dead_owners_late_commit_fails_after_the_sweep(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_file *file;
    struct io_transaction *late = transaction_case_begin_named("out", "dead");
    assert_ok(transaction_case_put(late, "a", "old", &err), &err);
    assert_ok(io->transactions->create(late, "b", 0, &file, &err), &err);
    assert_int_equal(io->transactions->sweep(io, folder, "new", NULL, &err), 1);
    assert_int_equal(io->transactions->create(late, "c", 0, &(struct io_file *){NULL}, &err),
                     -ENOENT);
    assert_true(io->transactions->finalize(late, file, 0, &err) < 0);
    io->transactions->abort(late);
    struct io_transaction *later = transaction_case_begin_named("out", "dead");
    assert_ok(transaction_case_put(later, "manifest", "old", &err), &err);
    assert_int_equal(io->transactions->sweep(io, folder, "new", NULL, &err), 1);
    assert_true(io->transactions->commit(later, &err) < 0);
    transaction_case_check_entries("");
}

int main(void)
{
#define CASE(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, transaction_case_set_up, transaction_case_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(abort_removes_everything),
        CASE(an_open_file_prevents_the_commit),
        CASE(a_failed_fsync_is_not_retried_and_fails_the_transaction),
        CASE(a_failure_at_any_operation_leaves_no_output),
        CASE(an_interrupted_call_is_retried),
        CASE(a_kernel_einval_is_not_reported_as_wrong_usage),
        CASE(a_failed_replacement_restores_the_old_output),
        CASE(an_unremovable_old_step_is_left_to_the_sweep),
        CASE(commits_work_without_renameat2_flags),
        CASE(a_dead_owners_late_commit_fails_after_the_sweep),
    };
    return engines_run(tests);
}
