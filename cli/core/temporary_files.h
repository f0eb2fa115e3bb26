/*
 * temporary_files — paths to remove if the program exits immediately.
 *
 * Backends of storage_open add single-file outputs while these have a temporary name. Paths beyond
 * the capacity of the table are left behind.
 */
#ifndef MILLRACE_CLI_CORE_TEMPORARY_FILES_H
#define MILLRACE_CLI_CORE_TEMPORARY_FILES_H

#include "io/io.h"

/* add copies the path. It may be a folder that is empty once the other paths are removed. Returns
 * -1 if the table is full or the path is not local. */
extern const struct io_temporaries temporary_files;

/* Removes all paths. Async-signal-safe. The program must then exit: threads that add a path block
 * forever. */
void temporary_files_remove_all(void);

#endif
