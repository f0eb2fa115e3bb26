/*
 * fixture — see fixture.h.
 */
#include "tests/shards/fixture.h"

#include "io/file_util.h"

#include <stdlib.h>

int fixture_set_up(void **state, const char *name)
{
    struct err err;
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    assert_ok(io_open("file:", NULL, &fixture->io, &err), &err);
    test_make_folder(fixture->folder);
    assert_ok(io_join_path(fixture->folder, name, fixture->path, &err), &err);
    *state = fixture;
    return 0;
}

int fixture_tear_down(void **state)
{
    struct fixture *fixture = *state;
    io_close(fixture->io);
    test_remove_folder(fixture->folder);
    free(fixture);
    return 0;
}
