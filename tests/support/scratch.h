/*
 * scratch — a fresh empty folder and a backend, which most cases need.
 *
 *     cmocka_unit_test_setup_teardown(a_behavior, scratch_set_up, scratch_tear_down)
 *
 * Under engines_run (engines.h) the backend uses the current engine. The names are short because
 * cases use them often. A program that needs more set-up calls these two functions from its own.
 * Forked processes may use both the folder and the backend.
 */
#ifndef MILLRACE_TESTS_SUPPORT_SCRATCH_H
#define MILLRACE_TESTS_SUPPORT_SCRATCH_H

#include "io/io.h"
#include "tests/support/test.h"

/* Valid from set-up to tear-down, which closes the backend and removes the folder recursively. */
extern struct io *io;
extern char folder[TEST_PATH_BYTES_MAX];

int scratch_set_up(void **state);
int scratch_tear_down(void **state);

/* folder/name, in one of four buffers used in rotation. */
const char *in_folder(const char *name);

#endif
