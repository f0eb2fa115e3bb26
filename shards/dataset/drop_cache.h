/*
 * drop_cache — evicts a dataset's files from the page cache, so that a measurement reads the disk.
 */
#ifndef MILLRACE_SHARDS_DATASET_DROP_CACHE_H
#define MILLRACE_SHARDS_DATASET_DROP_CACHE_H

#include "io/io.h"

/* Blocks until data written to the files is on disk. -EINVAL if the dataset is not made of local
 * files; otherwise errors of opening it, or of page_cache_drop on the first file that fails. The
 * files before that one have been dropped. */
int dataset_drop_cache(struct io *io, const char *dataset, struct err *err);

#endif
