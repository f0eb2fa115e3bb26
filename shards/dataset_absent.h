/*
 * dataset_absent — a folder that is no dataset: what its owner may have meant.
 */
#ifndef MILLRACE_SHARDS_DATASET_ABSENT_H
#define MILLRACE_SHARDS_DATASET_ABSENT_H

#include "io/io.h"

#include <stdbool.h>

/* Whether dataset.json is there, or at least is not known to be absent. */
bool dataset_is_in(struct io *io, const char *folder);
/* -ENOENT. The advice is a dataset within, as a conversion with --split leaves several; else to
 * convert. Blocks. */
int dataset_absent(struct io *io, const char *folder, struct err *err);

#endif
