/*
 * file_util — reading and writing whole files, and other blocking conveniences over the tables of
 * io.h.
 *
 * For small files off the hot path: dataset.json, a manifest, a shard's tail. They open their own
 * queue.
 */
#ifndef MILLRACE_IO_FILE_UTIL_H
#define MILLRACE_IO_FILE_UTIL_H

#include "io/io.h"

/* Reads exactly bytes at offset. -ENODATA with detail if the file ends first. Blocks. */
int io_read_exact(struct io_queue *queue, struct io *io, struct io_file *file, const char *path,
                  uint64_t offset, void *data, size_t bytes, struct err *err);
/* Blocks until everything is written. */
int io_write_exact(struct io_queue *queue, struct io *io, struct io_file *file, const char *path,
                   uint64_t offset, const void *data, size_t bytes, struct err *err);

/* Reads the whole file into memory to be freed with free(), and appends a NUL. -EFBIG beyond
 * bytes_max. */
int io_read_file(struct io *io, const char *path, size_t bytes_max, char **ret_data,
                 size_t *ret_bytes, struct err *err);
/* The first bytes, at most bytes_max, of a file that may be large. data is freed with free(). */
struct io_head {
    char *data;
    size_t bytes;
    uint64_t file_bytes; /* size of the whole file */
};
int io_read_head(struct io *io, const char *path, size_t bytes_max, struct io_head *ret_head,
                 struct err *err);
/* Writes a file that appears complete and durable under its name, or not at all. replace: an
 * existing file is replaced. */
int io_write_file(struct io *io, const char *path, const void *data, size_t bytes, bool replace,
                  struct err *err);

/* lock_shared and unlock_shared of a backend that may lack them. *ret_lock is NULL if nothing was
 * locked. */
int io_lock_shared(struct io *io, const char *path, bool is_exclusive,
                   struct io_shared_lock **ret_lock, struct err *err);
void io_unlock_shared(struct io *io, struct io_shared_lock *lock); /* NULL is fine */

/* resolve of a backend that may lack it. */
int io_resolve(struct io *io, const char *path, char *full_path, struct err *err);
bool io_identity_is_same(const struct io_identity *a, const struct io_identity *b);

/* folder + "/" + name, or just name if folder is "" or ".". -ENAMETOOLONG. path holds
 * IO_PATH_BYTES_MAX. */
int io_join_path(const char *folder, const char *name, char *path, struct err *err);
/* The folder part of path, "." if it has none. folder holds IO_PATH_BYTES_MAX. */
void io_parent_path(const char *path, char *folder);

#endif
