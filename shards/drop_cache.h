/*
 * drop_cache — a dataset's files out of the page cache, so that what is measured next is the disk.
 */
#ifndef MILLRACE_SHARDS_DROP_CACHE_H
#define MILLRACE_SHARDS_DROP_CACHE_H

#include "io/io.h"

/* Blocks until what was written of them is on disk. -EINVAL where the dataset is not of local
 * files; else what opening it gives, or what page_cache_drop does of its first file that fails: the
 * files before that one are dropped. */
int dataset_drop_cache(struct io *io, const char *dataset, struct err *err);

#endif
