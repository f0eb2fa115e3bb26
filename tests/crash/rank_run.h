/*
 * rank_run — describes a run of a plan by real ranks under mpirun. The ranks and the process that
 * kills them map this description from a file.
 *
 *     test program or crash_sweep  --mpirun.sh N-->  crash_rank FILE   (rank.c), N times
 *
 * Each rank holds a shared flock on the file while it lives, so an exclusive lock proves that all
 * have ended.
 */
#ifndef MILLRACE_TESTS_CRASH_RANK_RUN_H
#define MILLRACE_TESTS_CRASH_RANK_RUN_H

#include "tests/crash/workload.h"

#include <sys/types.h>

enum { RANK_RUN_RANKS_MAX = 4, RANK_RUN_NOBODY = -1 };

struct rank_run {
    /* Input. mpirun may start any number of ranks; plan.ranks is ignored. */
    struct plan plan; /* without its name */
    char folder[IO_PATH_BYTES_MAX];
    enum io_engine engine;
    /* Each rank first loads its part of the newest step, which must be `newest` (zeros: there is
     * none). */
    bool loads_newest;
    struct plan_save newest;
    /* This rank kills itself instead of making its dying_call-th durable call; RANK_RUN_NOBODY:
     * none does. */
    int dying_rank;
    unsigned dying_call;

    /* Output. */
    atomic_uint notes_count;                /* set by the first rank, as in workload_run */
    atomic_uint calls[RANK_RUN_RANKS_MAX];  /* durable calls so far */
    _Atomic pid_t pids[RANK_RUN_RANKS_MAX]; /* zero until the rank starts */
};

#endif
