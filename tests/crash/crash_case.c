/*
 * crash_case — see crash_case.h.
 */
#include "tests/crash/crash_case.h"

#include <inttypes.h>
#include <time.h>

static char crash_folder[TEST_PATH_BYTES_MAX];
static struct io *check_io;

int crash_set_up(void **state)
{
    struct err err = {0};
    struct io_options options = {.cache = IO_CACHE_ALL, .engine = IO_ENGINE_THREADS};
    scratch_set_up(state);
    test_make_folder(crash_folder);
    assert_ok(io_open("file:", &options, &check_io, &err), &err);
    return 0;
}

int crash_tear_down(void **state)
{
    io_close(check_io);
    test_remove_folder(crash_folder);
    return scratch_tear_down(state);
}

struct sweep crash_prepare(const struct known_plan *known)
{
    struct sweep sweep = {.plan = &known->plan,
                          .io = io,
                          .check_io = check_io,
                          .folder = folder,
                          .crash_folder = crash_folder};
    struct sweep_finding finding = {0};
    if (!sweep_prepare(&sweep, &known->before, &finding))
        fail_msg("%s", finding.why);
    return sweep;
}

uint64_t crash_seed(void)
{
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %" PRIu64 "\n", seed);
    return seed;
}

void crash_print(const struct sweep_counts *counts)
{
    print_message("%" PRIu64 " durable operations enumerated, %" PRIu64
                  " combinations of effects, %" PRIu64 " distinct disks checked, %" PRIu64
                  " kills\n",
                  counts->operations, counts->choices, counts->states, counts->kills);
}
