/*
 * page_run — the page of a run: its curves, checkpoints and configuration.
 */
#ifndef MILLRACE_CLI_REPORT_PAGE_RUN_H
#define MILLRACE_CLI_REPORT_PAGE_RUN_H

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "io/io.h"

/* metrics_path: the run's metrics.jsonl. Reads the folder ckpt next to it, if any, and the
 * configuration from its newest checkpoint. Appends to out. */
int page_run_build(struct io *io, const char *metrics_path, const struct log *log, struct str *out,
                   struct err *err);

#endif
