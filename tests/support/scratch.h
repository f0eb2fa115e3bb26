/*
 * scratch — what most cases stand on: a fresh empty folder, and the backend that serves it.
 *
 *     cmocka_unit_test_setup_teardown(a_behaviour, scratch_set_up, scratch_tear_down)
 *
 * Under engines_run (engines.h) the backend is that of the engine whose turn it is. The names are
 * short because a program of cases speaks of little else. A program that needs more calls the two
 * from its own set-up and tear-down. Processes that a case forks may use both.
 */
#ifndef MILLRACE_TESTS_SUPPORT_SCRATCH_H
#define MILLRACE_TESTS_SUPPORT_SCRATCH_H

#include "io/io.h"
#include "tests/support/test.h"

/* Valid from set-up to tear-down, which closes the one, and removes the other with all that is in
 * it. */
extern struct io *io;
extern char folder[TEST_PATH_BYTES_MAX];

int scratch_set_up(void **state);
int scratch_tear_down(void **state);

/* folder/name, in one of four buffers that take turns. */
const char *in_folder(const char *name);

#endif
