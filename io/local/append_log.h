/*
 * append_log — a local file that grows by whole records, for files that are read while they are
 * written: metrics, events.
 *
 * Each record is one write after the last complete one, so a killed writer leaves at most one torn
 * record, at the end. The next write overwrites what a failed one left.
 *
 * Threads: one owner.
 */
#ifndef MILLRACE_IO_LOCAL_APPEND_LOG_H
#define MILLRACE_IO_LOCAL_APPEND_LOG_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct append_log;

/* A log of lines. Creates the file if it is absent; truncates it to the complete lines within its
 * first keep_bytes (UINT64_MAX: all). */
int append_log_open(const char *path, uint64_t keep_bytes, struct append_log **ret_log,
                    struct err *err);
/* A new log. -EEXIST if the file exists. */
int append_log_create(const char *path, struct append_log **ret_log, struct err *err);
/* A record ends with a newline in a log of lines. Blocks. */
int append_log_add(struct append_log *log, const void *record, size_t bytes, struct err *err);
void append_log_close(struct append_log *log); /* NULL is fine */

#endif
