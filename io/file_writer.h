/*
 * file_writer — writes a file from its first to its last byte, and hashes it.
 */
#ifndef MILLRACE_IO_FILE_WRITER_H
#define MILLRACE_IO_FILE_WRITER_H

#include "io/io.h"

struct file_writer; /* use from one thread only */
/* file: of a transaction, which the caller finalizes after file_writer_finish. path: for messages.
 * Borrows io and file. */
int file_writer_open(struct io *io, struct io_file *file, const char *path,
                     struct file_writer **ret_writer, struct err *err);
/* Cancels writes in flight and waits for them. NULL is fine. */
void file_writer_close(struct file_writer *writer);
/* Copies the data. data: NULL appends zeros. */
int file_writer_append(struct file_writer *writer, const void *data, uint64_t bytes,
                       struct err *err);
uint64_t file_writer_bytes(const struct file_writer *writer); /* appended so far */
/* Writes what is left and waits for all writes. */
int file_writer_finish(struct file_writer *writer, struct err *err);
uint64_t file_writer_xxh3(const struct file_writer *writer);

#endif
