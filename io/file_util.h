/*
 * file_util — files read or written as a whole, and other blocking conveniences over the table in
 * io.h.
 *
 * For small things off the hot path: dataset.json, a manifest, a shard's tail. They open a queue of
 * their own.
 */
#ifndef MILLRACE_IO_FILE_UTIL_H
#define MILLRACE_IO_FILE_UTIL_H

#include "io/io.h"

/* Exactly bytes at offset. -ENODATA with detail where the file ends before. Blocks. */
int io_read_exact(struct io_queue *queue, struct io *io, struct io_file *file, const char *path,
                  uint64_t offset, void *data, size_t bytes, struct err *err);
/* Blocks until all is written. */
int io_write_exact(struct io_queue *queue, struct io *io, struct io_file *file, const char *path,
                   uint64_t offset, const void *data, size_t bytes, struct err *err);

/* The whole file, NUL-terminated beyond its end, into memory that the caller frees with free().
 * -EFBIG beyond bytes_max. */
int io_read_file(struct io *io, const char *path, size_t bytes_max, char **ret_data,
                 size_t *ret_bytes, struct err *err);
/* The beginning of a file that may be large: its first bytes, at most bytes_max, to be freed with
 * free(). */
struct io_head {
    char *data;
    size_t bytes;
    uint64_t file_bytes; /* of the whole file */
};
int io_read_head(struct io *io, const char *path, size_t bytes_max, struct io_head *ret_head,
                 struct err *err);
/* A file that appears whole and durable under its name, or not at all. replace: an existing one
 * gives way. */
int io_write_file(struct io *io, const char *path, const void *data, size_t bytes, bool replace,
                  struct err *err);

/* shared_lock_acquire and shared_lock_release of a backend that may lack them. *ret_lock is NULL
 * where nothing is held. */
int io_lock_shared(struct io *io, const char *path, bool is_exclusive,
                   struct io_shared_lock **ret_lock, struct err *err);
void io_unlock_shared(struct io *io, struct io_shared_lock *lock); /* NULL is fine */

/* The resolve of a backend that may lack it. */
int io_resolve(struct io *io, const char *path, char *full_path, struct err *err);
bool io_identity_is_same(const struct io_identity *a, const struct io_identity *b);

/* folder + "/" + name, or name alone where folder is "" or ".". -ENAMETOOLONG. path holds
 * IO_PATH_BYTES_MAX. */
int io_join_path(const char *folder, const char *name, char *path, struct err *err);
/* The folder part of path, "." where there is none, into folder, which holds IO_PATH_BYTES_MAX. */
void io_parent_path(const char *path, char *folder);

#endif
