/*
 * dry_run_fits — lists the settings of a run that fit a memory limit, cheapest first. Internal to
 * dry_run.
 */
#ifndef MILLRACE_CLI_COMMANDS_DRY_RUN_FITS_H
#define MILLRACE_CLI_COMMANDS_DRY_RUN_FITS_H

#include "cli/commands/dry_run.h"
#include "trainer/plan/dry_run.h"

enum { DRY_RUN_RANKS_MAX = 64 };

struct dry_run_plan {
    struct trainer_dry_run rank0;
    struct usage peak;                      /* the maximum over ranks of each figure */
    struct usage usages[DRY_RUN_RANKS_MAX]; /* of the first ranks */
    double flops;                           /* the maximum over ranks */
    uint64_t checkpoint_bytes;              /* of all ranks */
    bool is_host;                           /* device memory is host memory */
};

/* False if the configuration is invalid: a strategy may contradict other settings. */
bool dry_run_is_valid(const struct train_config *config);

int dry_run_config(const struct dry_run_options *options, const struct train_config *config,
                   struct dry_run_plan *ret_plan, struct err *err);

int dry_run_fits(const struct dry_run_options *options, struct err *err);

#endif
