/*
 * dry_run — `millrace train --dry-run`: prints a run's predicted memory, traffic and computation.
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
    const struct train_config *config; /* with the batch resolved for `ranks` */
    struct io *io;
    const struct log *log;
    /* batch.accumulation if the batch was resolved from it, else 0 */
    uint64_t accumulation;
    uint32_t ranks, local_ranks; /* in total, and per machine */
    bool all_strategies;         /* otherwise the configuration's strategy */
    uint64_t fits_bytes;         /* lists settings that fit this limit per rank; 0: no list */
    bool as_json;
};

/* Prints the result on stdout. -ENOMEM if no setting fits. */
int dry_run(const struct dry_run_options *options, struct err *err);

#endif
