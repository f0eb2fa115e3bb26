/*
 * temporary_files — temporary paths that are removed if the program ends at once.
 *
 * What storage_open opens adds single-file outputs while they have their temporary name. The table
 * is bounded: paths that do not fit are left behind.
 */
#ifndef MILLRACE_CLI_CORE_TEMPORARY_FILES_H
#define MILLRACE_CLI_CORE_TEMPORARY_FILES_H

#include "io/io.h"

/* add also takes a folder that is empty once all other paths are removed. It copies the path, and
 * returns -1 if the table is full or the path is not local. */
extern const struct io_temporaries temporary_files;

/* Removes all paths. Async-signal-safe; the program must then end. Threads that add another path
 * meanwhile block for good. */
void temporary_files_remove_all(void);

#endif
