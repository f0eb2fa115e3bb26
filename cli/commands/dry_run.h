/*
 * dry_run — `millrace train --dry-run`: prints what a run will take, move and compute, as
 * trainer/plan/dry_run.h finds it.
 */
#ifndef MILLRACE_CLI_COMMANDS_DRY_RUN_H
#define MILLRACE_CLI_COMMANDS_DRY_RUN_H

#include "base/err.h"
#include "base/log.h"
#include "io/io.h"
#include "trainer/config/config.h"

#include <stdbool.h>
#include <stdint.h>

struct dry_run_options {
    const struct train_config *config; /* its batch is resolved for so many ranks */
    struct io *io;
    const struct log *log;
    uint64_t
        accumulation; /* batch.accumulation, where the batch was resolved by it; 0: it was not */
    uint32_t ranks, local_ranks; /* in all, and on each machine */
    bool all_strategies;         /* else the configuration's */
    uint64_t fits_bytes;         /* 0: nothing is looked for; else of a rank */
    bool as_json;
};

/* Prints the result on stdout. -ENOMEM where something was to fit and nothing does. */
int dry_run(const struct dry_run_options *options, struct err *err);

#endif
