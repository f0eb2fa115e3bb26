/*
 * cold — a dataset's files out of the page cache, so that what is measured next is the disk.
 */
#ifndef MILLRACE_CLI_COLD_H
#define MILLRACE_CLI_COLD_H

#include "io/io.h"

/* -EINVAL where the dataset is not of local files; else what opening it gives. */
int cold_make(struct io *io, const char *dataset, struct err *err);

#endif
