/*
 * line_log — a text file that grows by whole lines and can be cut back: metrics, journals. Local
 * files only.
 *
 * Each line is one write at the end of the file, so a killed writer leaves at most one torn line at
 * its end. Opening truncates the file to keep_bytes and removes a torn line.
 *
 * Threads: one owner.
 */
#ifndef MILLRACE_IO_LOCAL_LINE_LOG_H
#define MILLRACE_IO_LOCAL_LINE_LOG_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct line_log;

/* Creates the file if it is absent; keeps the complete lines within its first keep_bytes
 * (UINT64_MAX: all). -errno with detail. */
int line_log_open(const char *path, uint64_t keep_bytes, struct line_log **ret_log,
                  struct err *err);
/* text has no newline; one is added. Blocks. */
int line_log_add(struct line_log *log, const char *text, size_t bytes, struct err *err);
void line_log_close(struct line_log *log); /* NULL is fine */

#endif
