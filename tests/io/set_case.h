/*
 * set_case — what the cases about sets share: a folder, a queue, sets with a file of text, what
 * lies there afterwards.
 */
#ifndef MILLRACE_TESTS_IO_SET_CASE_H
#define MILLRACE_TESTS_IO_SET_CASE_H

#include "io/io.h"

#include <stdbool.h>

extern struct io_queue *set_case_queue;

/* Of each case: as scratch's, with the queue and without failing calls. */
int set_case_set_up(void **state);
int set_case_tear_down(void **state);

struct io_set *set_case_begin(const struct io_set_options *options);
/* In the folder. owner_id: NULL is nobody's. */
struct io_set *set_case_begin_named(const char *name, const char *owner_id);
/* A file of the set, sealed. */
int set_case_put(struct io_set *set, const char *name, const char *text, struct err *err);

bool set_case_exists(const char *name);
void set_case_check_content(const char *name, const char *text);
/* The entries of the folder, sorted, one a line. */
void set_case_check_entries(const char *expected);

#endif
