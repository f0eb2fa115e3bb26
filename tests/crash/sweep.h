/*
 * sweep — crashes a plan at every instant, by power loss and by SIGKILL, and checks the folder left
 * behind (check.h).
 *
 *     sweep_prepare(&sweep, &plan);  // the folder in its initial state
 *     sweep_power(&sweep, seed, 1000, &counts, &finding);              // at most 1000 states
 *     sweep_kill_each(&sweep, &counts, &finding);
 *     sweep_kill_random(&sweep, seed, 20, &counts, &finding);       // 20 kills
 *
 * Each returns false at the first violation, described in finding.
 *
 * Single-threaded; the plan's ranks exist only during a call.
 */
#ifndef MILLRACE_TESTS_CRASH_SWEEP_H
#define MILLRACE_TESTS_CRASH_SWEEP_H

#include "tests/crash/check.h"
#include "tests/crash/power.h"

/* Borrows plan, backends and folders. */
struct sweep {
    const struct plan *plan;
    struct io *io;            /* for the plan; a bug may be seeded into it */
    struct io *check_io;      /* for checking and using the remaining steps */
    const char *folder;       /* for the plan; emptied as needed */
    const char *crash_folder; /* for the contents of disks after a power loss */
    struct tree base;         /* the folder before the plan */
    struct step_set step_set; /* the steps in base */
};

struct sweep_counts {
    uint64_t operations; /* durable calls counted */
    uint64_t choices;    /* combinations of operations that took effect */
    uint64_t states;     /* distinct resulting disks that were checked */
    uint64_t kills;      /* by SIGKILL */
};

struct sweep_finding {
    char why[CHECK_WHY_BYTES + 256];
};

/* Prepares the folder by saving `before` as single-rank steps. */
bool sweep_prepare(struct sweep *sweep, const struct step_set *before,
                   struct sweep_finding *finding);
void sweep_deinit(struct sweep *sweep);

/* Records one run, then simulates a power loss at each of its instants. dies_at: the plan's process
 * dies at this durable call, and the next process continues with the same disk (0: it lives). If a
 * violation is found, report (unless NULL) receives the history. */
struct sweep_power {
    uint64_t seed;
    unsigned states_max;
    unsigned dies_at;
    /* Dies at the call after the first name operation of this kind; 0: lives. */
    enum history_kind dies_after;
    FILE *report;
};
bool sweep_power(struct sweep *sweep, const struct sweep_power *options,
                 struct sweep_counts *counts, struct sweep_finding *finding);

/* Kills a process at each of its durable calls (before the call), and in the middle of each of its
 * writes. */
bool sweep_kill_each(struct sweep *sweep, struct sweep_counts *counts,
                     struct sweep_finding *finding);
/* Kills at instants that depend on the seed and on timing. */
bool sweep_kill_random(struct sweep *sweep, uint64_t seed, unsigned kills,
                       struct sweep_counts *counts, struct sweep_finding *finding);

/* At each durable call of the plan, another owner tries to acquire the folder: the attempt must be
 * refused, and the plan must succeed. */
bool sweep_second_owner(struct sweep *sweep, struct sweep_counts *counts,
                        struct sweep_finding *finding);

#endif
