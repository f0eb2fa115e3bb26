/*
 * storage — opens backends that register temporary files and inject faults.
 */
#ifndef MILLRACE_CLI_CORE_STORAGE_H
#define MILLRACE_CLI_CORE_STORAGE_H

#include "io/io.h"

/* Like io_open, with the faults in the environment variable MILLRACE_FAULT
 * (io/faults/fault_rules.h). Also -EINVAL: malformed rules. */
int storage_open(const char *path_or_url, const struct io_options *options, struct io **ret_io,
                 struct err *err);
/* faults: rules that override MILLRACE_FAULT, or NULL. */
int storage_open_with_faults(const char *path_or_url, const struct io_options *options,
                             const char *faults, struct io **ret_io, struct err *err);
/* For a path to write. Also -EROFS: the backend only reads. */
int storage_open_target(const char *path_or_url, struct io **ret_io, struct err *err);
/* Opens the backends of a source and a target: the same one, if it serves both. */
int storage_open_two(const char *source, const char *target, struct io **ret_source_io,
                     struct io **ret_target_io, struct err *err);
void storage_close_two(struct io *source_io, struct io *target_io); /* NULL is fine */

#endif
