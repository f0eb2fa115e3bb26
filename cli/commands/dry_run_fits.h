/*
 * dry_run_fits — which settings of a run fit into so much memory, the cheapest first. Internal to
 * dry_run.
 */
#ifndef MILLRACE_CLI_COMMANDS_DRY_RUN_FITS_H
#define MILLRACE_CLI_COMMANDS_DRY_RUN_FITS_H

#include "cli/commands/dry_run.h"
#include "trainer/plan/dry_run.h"

enum { DRY_RUN_RANKS_MAX = 64 }; /* that are told one by one */

/* All ranks of a run. */
struct planned {
    struct trainer_dry_run first;          /* rank 0's */
    struct usage most;                     /* of each number the largest of any rank */
    struct usage ranks[DRY_RUN_RANKS_MAX]; /* of the first ones */
    double flops;                          /* of the rank that has most of them */
    uint64_t checkpoint_bytes;             /* of all ranks' files */
    bool is_host;                          /* device memory is the host's */
};

/* Would a run of it begin? A strategy may contradict what else the configuration says. */
bool dry_run_allows(const struct train_config *config);

int dry_run_config(const struct dry_run_options *options, const struct train_config *config,
                   struct planned *ret_planned, struct err *err);

int dry_run_fits(const struct dry_run_options *options, struct err *err);

#endif
