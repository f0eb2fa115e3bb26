/*
 * transaction_case — shared by the transaction tests: a folder, a queue, transactions with a text
 * file, checks of the resulting entries.
 */
#ifndef MILLRACE_TESTS_IO_TRANSACTION_CASE_H
#define MILLRACE_TESTS_IO_TRANSACTION_CASE_H

#include "io/io.h"

#include <stdbool.h>

extern struct io_queue *transaction_case_queue;

/* Set-up and tear-down of each case: those of scratch.h, plus the queue and a syscalls reset. */
int transaction_case_set_up(void **state);
int transaction_case_tear_down(void **state);

struct io_transaction *transaction_case_begin(const struct io_transaction_options *options);
/* Begins a transaction in the folder. owner_id may be NULL. */
struct io_transaction *transaction_case_begin_named(const char *name, const char *owner_id);
/* Adds a file to the transaction and finalizes it. */
int transaction_case_put(struct io_transaction *transaction, const char *name, const char *text,
                         struct err *err);

bool transaction_case_exists(const char *name);
void transaction_case_check_content(const char *name, const char *text);
/* expected: the sorted entries of the folder, one per line. */
void transaction_case_check_entries(const char *expected);

#endif
