/*
 * seekable_io — storage in which compressed files that end with a seek table (seek_table.h) read as
 * their content, in any order.
 *
 *     seekable_io_open(inner, 0, &io, err);
 *     io->ops->file_open(io, "shard-000000.tar.zst", &file, err);
 *     io->ops->file_size(file);  // of the content
 *
 * It only reads, and has no transactions and no locks. Requests run on threads, which read and
 * decompress, or, in a queue of depth 1, in submit. A thread holds 1 MiB of a file, or a larger
 * frame, and the content of one frame. Plain files are read more slowly than through inner by deep
 * queues.
 */
#ifndef MILLRACE_IO_ZSTD_SEEKABLE_IO_H
#define MILLRACE_IO_ZSTD_SEEKABLE_IO_H

#include "io/io.h"

/* Whether a file of this name is checked for a seek table: it ends in ".zst". */
bool seekable_io_is_name(const char *path);

/* threads: of each queue; 0: one per usable CPU. Borrows inner. A request's result is -EBADMSG if
 * compressed data is damaged. file_open fails with -EBADMSG if the seek table is; a file without
 * one reads as it is. */
int seekable_io_open(struct io *inner, unsigned threads, struct io **ret_io, struct err *err);
/* Whether an open file of such a backend is compressed and has a seek table. */
bool seekable_io_is_compressed(const struct io_file *file);

#endif
