/*
 * ranks — see ranks.h.
 */
#include "tests/support/ranks.h"

#include "comm/comm_mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct comm *world;

int ranks_main(const struct CMUnitTest *tests, size_t count, size_t message_bytes_max)
{
    struct comm_mpi_options options = {.message_bytes_max = message_bytes_max};
    struct err err = {0};
    char line[ERR_LINE_BYTES_MAX];
    if (comm_mpi_open(&options, &world, &err)) {
        fprintf(stderr, "%s\n", err_format(&err, line, sizeof line));
        return 1;
    }
    if (world->rank != 0 && !freopen("/dev/null", "w", stdout))
        return 1;
    for (size_t i = 0; i < count; i++) {
        if (_cmocka_run_group_tests("ranks", &tests[i], 1, NULL, NULL) == 0)
            continue;
        fprintf(stderr, "%s failed on rank %d of %d\n", tests[i].name, world->rank, world->ranks);
        world->ops->abort(world);
        return 1;
    }
    comm_close(world);
    return 0;
}

void ranks_barrier(void)
{
    struct err err = {0};
    assert_ok(comm_barrier(world, NULL, &err), &err);
}

void ranks_make_folder(char path[TEST_PATH_BYTES_MAX])
{
    enum { RANKS_MAX = 16 };
    static char all[RANKS_MAX][TEST_PATH_BYTES_MAX];
    char own[TEST_PATH_BYTES_MAX] = "";
    struct comm_work work;
    struct err err = {0};
    assert_true(world->ranks <= RANKS_MAX);
    if (world->rank == 0)
        test_make_folder(own);
    assert_ok(world->ops->all_gather(world, own, all, sizeof own, NULL, &work, &err), &err);
    assert_ok(comm_wait(world, &work, &err), &err);
    memcpy(path, all[0], sizeof all[0]);
}

void ranks_remove_folder(const char *path)
{
    ranks_barrier();
    if (world->rank == 0)
        test_remove_folder(path);
}
