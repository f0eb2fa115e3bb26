/*
 * fixture — a fresh folder per case, and the path of the output under test.
 *
 *     static int set_up(void **state)
 *     {
 *         return fixture_set_up(state, "shard-000000.tar");
 *     }
 */
#ifndef MILLRACE_TESTS_SHARDS_FIXTURE_H
#define MILLRACE_TESTS_SHARDS_FIXTURE_H

#include "io/io.h"
#include "tests/support/test.h"

struct fixture {
    struct io *io;
    char folder[TEST_PATH_BYTES_MAX];
    char path[TEST_PATH_BYTES_MAX]; /* in the folder; initially absent */
};

/* Sets *state to a malloc'ed fixture. name: the file name in path. */
int fixture_set_up(void **state, const char *name);
/* Closes the backend, removes the folder and frees the fixture. */
int fixture_tear_down(void **state);

#endif
