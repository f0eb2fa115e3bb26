/*
 * transaction_case — what the cases about sets share: a folder, a queue, sets with a file of text,
 * what lies there afterwards.
 */
#ifndef MILLRACE_TESTS_IO_TRANSACTION_CASE_H
#define MILLRACE_TESTS_IO_TRANSACTION_CASE_H

#include "io/io.h"

#include <stdbool.h>

extern struct io_queue *transaction_case_queue;

/* Of each case: as scratch's, with the queue and without failing calls. */
int transaction_case_set_up(void **state);
int transaction_case_tear_down(void **state);

struct io_transaction *transaction_case_begin(const struct io_transaction_options *options);
/* In the folder. owner_id: NULL is nobody's. */
struct io_transaction *transaction_case_begin_named(const char *name, const char *owner_id);
/* A file of the set, finalized. */
int transaction_case_put(struct io_transaction *transaction, const char *name, const char *text,
                         struct err *err);

bool transaction_case_exists(const char *name);
void transaction_case_check_content(const char *name, const char *text);
/* The entries of the folder, sorted, one a line. */
void transaction_case_check_entries(const char *expected);

#endif
