/*
 * path_within — checks whether a path lies inside a folder, taking links and mounts into account.
 *
 * Used by commands that read one tree and write another: if the output were inside the input, the
 * next run would read it.
 */
#ifndef MILLRACE_IO_PATH_WITHIN_H
#define MILLRACE_IO_PATH_WITHIN_H

#include "base/err.h"

#include <stdbool.h>

/* Whether path is the folder or below it. Follows symbolic links, ".." and mounts; parts that do
 * not exist are compared by name. False if it cannot be determined. Blocks. */
bool io_is_within(const char *path, const char *folder);

/* -EINVAL if either contains the other or both are the same. source_label and target_label name
 * them in the message: "SRC", "DST". */
int io_check_disjoint(const char *source, const char *source_label, const char *target,
                      const char *target_label, struct err *err);

#endif
