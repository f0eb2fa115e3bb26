/*
 * rank_run — one run of a plan by real ranks under mpirun, and what they and the process that kills
 * them see both: memory of a file.
 *
 *     test program or crash_sweep  --mpirun.sh N-->  crash_rank FILE   (rank.c), N times
 *
 * Each rank holds a shared flock on the file while it lives, so whoever has an exclusive one knows
 * that all are gone.
 */
#ifndef MILLRACE_TESTS_CRASH_RANK_RUN_H
#define MILLRACE_TESTS_CRASH_RANK_RUN_H

#include "tests/crash/subject.h"

#include <sys/types.h>

enum { RANK_RUN_RANKS_MAX = 4, RANK_RUN_NOBODY = -1 };

struct rank_run {
    /* What is to be done, by mpirun's n ranks, whatever number the plan has. */
    struct plan plan; /* without its name */
    char folder[IO_PATH_BYTES_MAX];
    enum io_engine engine;
    bool
        /* loads the newest step first, which must be `newest` (zeros: there is none), each rank its
         * own part */
        goes_on;
    struct plan_save newest;
    int dying_rank; /* kills itself instead of its dying_call-th durable call; RANK_RUN_NOBODY */
    unsigned dying_call;

    /* What is seen. */
    atomic_uint said;                       /* by the first rank, as subject_run's */
    atomic_uint calls[RANK_RUN_RANKS_MAX];  /* durable ones so far */
    _Atomic pid_t pids[RANK_RUN_RANKS_MAX]; /* zero before the rank began */
};

#endif
