/*
 * transaction_case — see transaction_case.h.
 */
#include "tests/io/transaction_case.h"

#include "io/file_util.h"
#include "tests/io/syscalls.h"
#include "tests/support/scratch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct io_queue *transaction_case_queue;

int transaction_case_set_up(void **state)
{
    struct err err = {0};
    syscalls_reset();
    scratch_set_up(state);
    assert_ok(io->ops->queue_open(io, 4, &transaction_case_queue, &err), &err);
    return 0;
}

int transaction_case_tear_down(void **state)
{
    syscalls_reset();
    io->ops->queue_close(transaction_case_queue);
    return scratch_tear_down(state);
}

struct io_transaction *transaction_case_begin(const struct io_transaction_options *options)
{
    struct err err = {0};
    struct io_transaction *transaction = NULL;
    assert_ok(io->transactions->begin(io, options, &transaction, &err), &err);
    return transaction;
}

struct io_transaction *transaction_case_begin_named(const char *name, const char *owner_id)
{
    return transaction_case_begin(&(struct io_transaction_options){
        .path = in_folder(name), .commit_record = "manifest", .owner_id = owner_id});
}

int transaction_case_put(struct io_transaction *transaction, const char *name, const char *text,
                         struct err *err)
{
    struct io_file *file;
    int status = io->transactions->create(transaction, name, strlen(text), &file, err);
    if (status)
        return status;
    status = io_write_exact(transaction_case_queue, io, file, name, 0, text, strlen(text), err);
    int finalized = io->transactions->finalize(transaction, file, strlen(text), err);
    return status ? status : finalized;
}

bool transaction_case_exists(const char *name)
{
    struct stat info;
    return lstat(in_folder(name), &info) == 0;
}

void transaction_case_check_content(const char *name, const char *text)
{
    size_t bytes;
    char *data = (char *)test_read_file(in_folder(name), &bytes);
    assert_string_equal(data, text);
    free(data);
}

void transaction_case_check_entries(const char *expected)
{
    char text[4000];
    assert_int_equal(test_run_output(text, sizeof text, "cd '%s' && LC_ALL=C ls -A", folder), 0);
    assert_string_equal(text, expected);
}
