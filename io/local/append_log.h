/*
 * append_log — appends whole records (metrics, events) to a local file that other processes may
 * read at the same time.
 *
 * A killed writer leaves at most one torn record, at the end; the next write overwrites it.
 *
 * Owner thread.
 */
#ifndef MILLRACE_IO_LOCAL_APPEND_LOG_H
#define MILLRACE_IO_LOCAL_APPEND_LOG_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct append_log;

/* Opens a log of lines; creates the file if it is absent. Truncates it to the complete lines within
 * its first keep_bytes (UINT64_MAX: all). */
int append_log_open(const char *path, uint64_t keep_bytes, struct append_log **ret_log,
                    struct err *err);
/* -EEXIST if the file exists. */
int append_log_create(const char *path, struct append_log **ret_log, struct err *err);
/* In a log of lines, a record ends with a newline. Blocks. */
int append_log_add(struct append_log *log, const void *record, size_t bytes, struct err *err);
void append_log_close(struct append_log *log); /* NULL is fine */

#endif
