/*
 * line_log — a text file that grows by whole lines and can be cut back: metrics, journals. Local
 * files only.
 *
 * Each line is one write at the end of the file, so that a killed writer leaves at most one torn
 * line at its end; opening cuts everything after keep_bytes, and the torn line with it.
 *
 * Threads: one owner.
 */
#ifndef MILLRACE_IO_LINE_LOG_H
#define MILLRACE_IO_LINE_LOG_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct line_log;

/* Makes the file if it is absent; keeps the whole lines within its first keep_bytes (UINT64_MAX:
 * all). Gives the log. -errno with detail. */
int line_log_open(const char *path, uint64_t keep_bytes, struct line_log **ret_log,
                  struct err *err);
/* text without its newline, which is added. Blocks. */
int line_log_add(struct line_log *log, const char *text, size_t bytes, struct err *err);
void line_log_close(struct line_log *log); /* NULL is fine */

#endif
