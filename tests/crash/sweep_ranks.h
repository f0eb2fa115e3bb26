/*
 * sweep_ranks — real ranks under mpirun save by a plan, one of them is killed (SIGKILL), and others
 * check and continue with what is left.
 *
 *     sweep_ranks_each(&sweep, &counts, &finding);
 *
 * After each kill, the steps left must be complete and possible (check.h). Then a different number
 * of ranks loads the newest step, sweeps the folder and saves another step, after which
 * check_folder must hold.
 *
 * Like those of sweep.h, these return false at the first violation, described in finding. A sweep's
 * crash_folder has the runs' files.
 */
#ifndef MILLRACE_TESTS_CRASH_SWEEP_RANKS_H
#define MILLRACE_TESTS_CRASH_SWEEP_RANKS_H

#include "tests/crash/sweep.h"

/* NULL, or why ranks cannot run here. */
const char *sweep_ranks_skip_reason(void);

/* Kills each rank instead of each of its durable calls, until it completes. */
bool sweep_ranks_each(struct sweep *sweep, struct sweep_counts *counts,
                      struct sweep_finding *finding);
/* That many kills, of ranks and at calls derived from the seed; every second kill is from outside,
 * hence at an arbitrary instant. */
bool sweep_ranks_some(struct sweep *sweep, uint64_t seed, unsigned kills,
                      struct sweep_counts *counts, struct sweep_finding *finding);

#endif
