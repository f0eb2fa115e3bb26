/*
 * path_within — whether a path lies inside a folder, however either is spelled.
 *
 * For commands that read one tree and write another: output inside the input would be read as input
 * by the next run.
 */
#ifndef MILLRACE_IO_PATH_WITHIN_H
#define MILLRACE_IO_PATH_WITHIN_H

#include "io/io.h"

/* Whether path is the folder or lies below it, through symbolic links, "..", and mounts. Neither
 * has to exist: missing parts are compared by name. False if it can't be determined. Blocks. */
bool io_is_within(struct io *io, const char *path, const char *folder);

/* -EINVAL if either is inside the other, or both are the same. source_what and target_what name
 * them in the message: "SRC", "DST". */
int io_check_apart(struct io *io, const char *source, const char *source_what, const char *target,
                   const char *target_what, struct err *err);

#endif
