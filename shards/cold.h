/*
 * cold — a dataset's files out of the page cache, so that what is measured next is the disk.
 */
#ifndef MILLRACE_SHARDS_COLD_H
#define MILLRACE_SHARDS_COLD_H

#include "io/io.h"

/* Blocks until what was written of them is on disk. -EINVAL where the dataset is not of local
 * files; else what opening it gives, or what cached_drop does of its first file that fails: the
 * files before that one are dropped. */
int cold_make(struct io *io, const char *dataset, struct err *err);

#endif
