/*
 * scratch — see scratch.h.
 */
#include "tests/support/scratch.h"

#include "io/faults/io_fault.h"
#include "tests/support/engines.h"

#include <stdlib.h>

struct io *io;
char folder[TEST_PATH_BYTES_MAX];

int scratch_set_up(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_options options = engines_options();
    test_make_folder(folder);
    assert_ok(io_fault_open(folder, &options, getenv("MILLRACE_FAULT"), &io, &err), &err);
    return 0;
}

int scratch_tear_down(void **state)
{
    (void)state;
    io_close(io);
    test_remove_folder(folder);
    return 0;
}

const char *in_folder(const char *name)
{
    static char paths[4][TEST_PATH_BYTES_MAX + 300];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}
