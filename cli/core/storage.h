#ifndef MILLRACE_CLI_CORE_STORAGE_H
#define MILLRACE_CLI_CORE_STORAGE_H

#include "io/io.h"

/* io_open, with temporary_files and the faults of the environment variable MILLRACE_FAULT
 * (io/faults/fault_rules.h). Also -EINVAL: its rules are malformed. */
int storage_open(const char *path_or_url, const struct io_options *options, struct io **ret_io,
                 struct err *err);
/* The same with the given faults instead, if faults is not NULL; "": none. */
int storage_open_with(const char *path_or_url, const struct io_options *options, const char *faults,
                      struct io **ret_io, struct err *err);

#endif
