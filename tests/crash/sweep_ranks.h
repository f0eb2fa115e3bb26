/*
 * sweep_ranks — kills one of several real ranks that save under mpirun (SIGKILL); other ranks then
 * check the remaining steps and continue from them.
 *
 *     sweep_ranks_each(&sweep, &counts, &finding);
 *
 * After each kill, the steps left must be complete and possible (check.h). Then a different number
 * of ranks loads the newest step, sweeps the folder and saves another step, after which
 * check_folder must hold.
 *
 * Like the functions of sweep.h, these return false at the first violation, described in finding.
 * The runs' files are in the sweep's crash_folder.
 */
#ifndef MILLRACE_TESTS_CRASH_SWEEP_RANKS_H
#define MILLRACE_TESTS_CRASH_SWEEP_RANKS_H

#include "tests/crash/sweep.h"

/* Returns NULL, or the reason why ranks cannot run here. */
const char *sweep_ranks_skip_reason(void);

/* Kills each rank at each of its durable calls (before the call), until the rank completes. */
bool sweep_ranks_each(struct sweep *sweep, struct sweep_counts *counts,
                      struct sweep_finding *finding);
/* Kills this many times; the seed determines the ranks and calls. Every second kill is sent by
 * another process, at an arbitrary instant. */
bool sweep_ranks_some(struct sweep *sweep, uint64_t seed, unsigned kills,
                      struct sweep_counts *counts, struct sweep_finding *finding);

#endif
