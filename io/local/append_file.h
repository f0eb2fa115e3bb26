/*
 * append_file — a new local file that grows by whole records, for logs that are read while they are
 * written.
 *
 * Each record is one write after the last complete record. A killed writer therefore leaves at most
 * one torn record, at the end; the next write overwrites what a failed one left.
 *
 * Threads: one owner.
 */
#ifndef MILLRACE_IO_LOCAL_APPEND_FILE_H
#define MILLRACE_IO_LOCAL_APPEND_FILE_H

#include "base/err.h"

#include <stddef.h>

struct append_file;

/* Creates the file. -EEXIST if it exists; -errno with detail. */
int append_file_open(const char *path, struct append_file **ret_file, struct err *err);
/* Blocks. */
int append_file_add(struct append_file *file, const void *record, size_t bytes, struct err *err);
void append_file_close(struct append_file *file); /* NULL is fine */

#endif
