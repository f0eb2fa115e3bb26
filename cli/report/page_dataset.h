/*
 * page_dataset — the page of a dataset or of one shard: a contact sheet or a sample of text, sizes,
 * classes, fields, shards and how it was converted. Reads the samples that it shows (see survey.h),
 * so it takes seconds where `inspect` alone takes none.
 */
#ifndef MILLRACE_CLI_REPORT_PAGE_DATASET_H
#define MILLRACE_CLI_REPORT_PAGE_DATASET_H

#include "base/err.h"
#include "base/str.h"
#include "io/io.h"

#include <stdbool.h>

/* path: dataset.json or its folder; or, where is_shard, a shard. Appends to out. The same files
 * give the same page. */
int page_dataset_build(struct io *io, const char *path, bool is_shard, struct str *out,
                       struct err *err);

#endif
