/*
 * sweep — a plan crashed at every instant, and what was left looked at (check.h): by loss of power,
 * and by SIGKILL.
 *
 *     sweep_prepare(&sweep, &plan);  // the folder as the plan finds it
 *     sweep_power(&sweep, seed, 1000, &counts, &finding);              // at most so many states
 *     sweep_kill_each(&sweep, &counts, &finding);
 *     sweep_kill_sometimes(&sweep, seed, 20, &counts, &finding);       // so many kills
 *
 * Each returns false at the first thing that does not hold, which finding then tells.
 *
 * Threads: single; the plans' ranks come and go within a call.
 */
#ifndef MILLRACE_TESTS_CRASH_SWEEP_H
#define MILLRACE_TESTS_CRASH_SWEEP_H

#include "tests/crash/check.h"
#include "tests/crash/power.h"

/* Borrows plan, backends and folders. */
struct sweep {
    const struct plan *plan;
    struct io *io;            /* that the plan runs over; a bug may be seeded into it */
    struct io *look_io;       /* that looks at what is left, and goes on with it */
    const char *folder;       /* where the plan runs; emptied as needed */
    const char *crash_folder; /* where disks after a loss of power are laid out */
    struct tree base;         /* of the folder before the plan */
    struct shelf shelf;       /* that is in it */
};

struct sweep_counts {
    uint64_t operations; /* durable calls that were enumerated */
    uint64_t choices;    /* combinations of what is there and what is not */
    uint64_t states;     /* different disks that came of them, and were looked at */
    uint64_t kills;      /* by SIGKILL */
};

struct sweep_finding {
    char why[CHECK_WHY_BYTES + 256];
};

/* Saves what the plan finds: `before` as single-rank steps. */
bool sweep_prepare(struct sweep *sweep, const struct shelf *before, struct sweep_finding *finding);
void sweep_deinit(struct sweep *sweep);

/* One recorded run, then the power lost at each of its instants. dies_at: the plan's process dies
 * at this durable call, and the next goes on with the same disk (0: it lives). report, unless NULL,
 * gets the history where something is found. */
struct sweep_power {
    uint64_t seed;
    unsigned states_max;
    unsigned dies_at;
    enum history_kind
        dies_after; /* at the call behind the first such operation on names; 0: lives */
    FILE *report;
};
bool sweep_power(struct sweep *sweep, const struct sweep_power *how, struct sweep_counts *counts,
                 struct sweep_finding *finding);

/* A process killed instead of each of its durable calls, and in the middle of each of its
 * writes. */
bool sweep_kill_each(struct sweep *sweep, struct sweep_counts *counts,
                     struct sweep_finding *finding);
/* At instants that follow from the seed and the machine. */
bool sweep_kill_sometimes(struct sweep *sweep, uint64_t seed, unsigned kills,
                          struct sweep_counts *counts, struct sweep_finding *finding);

/* An other owner tries the folder at each durable call of the plan: it must be refused, and the
 * plan must succeed. */
bool sweep_intrude(struct sweep *sweep, struct sweep_counts *counts, struct sweep_finding *finding);

#endif
