/*
 * dataset_not_found — explains that a folder is not a dataset, and suggests what the user may have
 * meant.
 */
#ifndef MILLRACE_SHARDS_DATASET_DATASET_NOT_FOUND_H
#define MILLRACE_SHARDS_DATASET_DATASET_NOT_FOUND_H

#include "io/io.h"

#include <stdbool.h>

/* Whether dataset.json exists, or at least is not known to be absent. */
bool dataset_exists(struct io *io, const char *folder);
/* Returns -ENOENT. The advice names a dataset within the folder, such as those of a conversion with
 * --split, or suggests to convert. Blocks. */
int dataset_not_found(struct io *io, const char *folder, struct err *err);

#endif
