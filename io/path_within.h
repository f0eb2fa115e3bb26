/*
 * path_within — checks whether a path lies inside a folder, taking links and mounts into account.
 *
 * Commands that read one tree and write another need it: a run would read its predecessor's output
 * if that were inside the input.
 */
#ifndef MILLRACE_IO_PATH_WITHIN_H
#define MILLRACE_IO_PATH_WITHIN_H

#include "io/io.h"

/* Whether path is the folder or below it, through symbolic links, "..", and mounts. Missing parts
 * are compared by name. False if it cannot be determined. Blocks. */
bool io_is_within(struct io *io, const char *path, const char *folder);

/* -EINVAL if either contains the other or both are the same. source_what and target_what name them
 * in the message: "SRC", "DST". */
int io_check_apart(struct io *io, const char *source, const char *source_what, const char *target,
                   const char *target_what, struct err *err);

#endif
