/*
 * dry_run — `millrace train --dry-run`: prints what a run will use, transfer and compute, as
 * computed by trainer/plan/dry_run.h.
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
    const struct train_config *config; /* its batch is resolved for `ranks` */
    struct io *io;
    const struct log *log;
    /* batch.accumulation if the batch was resolved from it; otherwise 0 */
    uint64_t accumulation;
    uint32_t ranks, local_ranks; /* in total, and per machine */
    bool all_strategies;         /* otherwise the configuration's strategy */
    uint64_t fits_bytes;         /* memory limit per rank to search settings for; 0: no search */
    bool as_json;
};

/* Prints the result on stdout. -ENOMEM if no setting fits. */
int dry_run(const struct dry_run_options *options, struct err *err);

#endif
