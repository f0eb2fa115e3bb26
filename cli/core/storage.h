#ifndef MILLRACE_CLI_CORE_STORAGE_H
#define MILLRACE_CLI_CORE_STORAGE_H

#include "io/io.h"

/* Like io_open, with temporary_files and the faults in the environment variable MILLRACE_FAULT
 * (io/faults/fault_rules.h). Also returns -EINVAL if its rules are malformed. */
int storage_open(const char *path_or_url, const struct io_options *options, struct io **ret_io,
                 struct err *err);
/* Like storage_open, but with the given faults instead, unless faults is NULL. "": no faults. */
int storage_open_with(const char *path_or_url, const struct io_options *options, const char *faults,
                      struct io **ret_io, struct err *err);

#endif
