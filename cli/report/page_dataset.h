/*
 * page_dataset — the page of a dataset or shard: a contact sheet or text, sizes, classes, fields,
 * shards and conversion options. Reading the samples (survey.h) takes seconds.
 */
#ifndef MILLRACE_CLI_REPORT_PAGE_DATASET_H
#define MILLRACE_CLI_REPORT_PAGE_DATASET_H

#include "base/err.h"
#include "base/str.h"
#include "io/io.h"

#include <stdbool.h>

/* path: dataset.json or its folder, or a shard if is_shard. Appends to out. Reproducible. */
int page_dataset_build(struct io *io, const char *path, bool is_shard, struct str *out,
                       struct err *err);

#endif
