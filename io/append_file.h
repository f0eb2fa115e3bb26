/*
 * append_file — a new local file that grows by whole records, for logs that others read while they
 * grow.
 *
 * Each record is one write at the end of what is good, so that a killed writer leaves at most one
 * torn record, at the end, and a write that failed is written over by the next.
 *
 * Threads: one owner.
 */
#ifndef MILLRACE_IO_APPEND_FILE_H
#define MILLRACE_IO_APPEND_FILE_H

#include "base/err.h"

#include <stddef.h>

struct append_file;

/* Makes the file. -EEXIST where it is there; -errno with detail. */
int append_file_open(const char *path, struct append_file **ret_file, struct err *err);
/* Blocks. */
int append_file_add(struct append_file *file, const void *record, size_t bytes, struct err *err);
void append_file_close(struct append_file *file); /* NULL is fine */

#endif
