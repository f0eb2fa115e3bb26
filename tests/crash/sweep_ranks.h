/*
 * sweep_ranks — real ranks under mpirun that save by a plan, one of them killed (SIGKILL), and what
 * is left looked at and gone on with.
 *
 *     sweep_ranks_each(&sweep, &counts, &finding);
 *
 * After each kill: what is there is whole and is what may be there (check.h); then other ranks, in
 * another number, load the newest step, sweep what is left and save a further one; and check_folder
 * holds of what they leave.
 *
 * As sweep.h's, these return false at the first thing that does not hold, which finding then tells.
 * A sweep's crash_folder has the runs' files.
 */
#ifndef MILLRACE_TESTS_CRASH_SWEEP_RANKS_H
#define MILLRACE_TESTS_CRASH_SWEEP_RANKS_H

#include "tests/crash/sweep.h"

/* NULL, or why there can be no ranks here. */
const char *sweep_ranks_lack(void);

/* Each rank killed instead of each of its durable calls, until it lives to the end. */
bool sweep_ranks_each(struct sweep *sweep, struct sweep_counts *counts,
                      struct sweep_finding *finding);
/* So many kills, of ranks and at calls that follow from the seed, every second from outside and so
 * at an instant of its own. */
bool sweep_ranks_some(struct sweep *sweep, uint64_t seed, unsigned kills,
                      struct sweep_counts *counts, struct sweep_finding *finding);

#endif
