/*
 * file_util — blocking helpers on top of the tables in io.h, for small files off the hot path:
 * dataset.json, a manifest, a shard's tail.
 */
#ifndef MILLRACE_IO_FILE_UTIL_H
#define MILLRACE_IO_FILE_UTIL_H

#include "io/io.h"

/* Submits a request to an idle queue and waits for it. Returns its result, or -errno. */
ssize_t io_run_request(struct io_queue *queue, struct io *io, struct io_request *request);
/* -ENODATA with detail if the file is too short. Blocks. */
int io_read_exact(struct io_queue *queue, struct io *io, struct io_file *file, const char *path,
                  uint64_t offset, void *data, size_t bytes, struct err *err);
/* Blocks. */
int io_write_exact(struct io_queue *queue, struct io *io, struct io_file *file, const char *path,
                   uint64_t offset, const void *data, size_t bytes, struct err *err);

/* The caller frees *ret_data, which ends with an extra NUL. If io does not serve the path, opens
 * the backend that does. -EFBIG: the file exceeds bytes_max. */
int io_read_file(struct io *io, const char *path, size_t bytes_max, char **ret_data,
                 size_t *ret_bytes, struct err *err);
/* At most the first bytes_max bytes of a file. The caller frees data. */
struct io_head {
    char *data;
    size_t bytes;
    uint64_t file_bytes; /* size of the whole file */
};
int io_read_head(struct io *io, const char *path, size_t bytes_max, struct io_head *ret_head,
                 struct err *err);
/* Writes the file in a transaction. -EEXIST if it exists and replace is false. */
int io_write_file(struct io *io, const char *path, const void *data, size_t bytes, bool replace,
                  struct err *err);

/* Writes a file of a transaction and finalizes it. path: for messages. */
int io_write_transaction_file(struct io *io, struct io_transaction *transaction, const char *name,
                              const char *path, const void *data, size_t bytes, struct err *err);

/* The backend may lack shared locks. *ret_lock is then NULL. */
int io_lock_shared(struct io *io, const char *path, bool is_exclusive,
                   struct io_shared_lock **ret_lock, struct err *err);
void io_unlock_shared(struct io *io, struct io_shared_lock *lock); /* NULL is fine */

/* The backend may lack resolve. */
int io_resolve(struct io *io, const char *path, char *full_path, struct err *err);
/* The backend may lack gap_bytes. */
uint64_t io_gap_bytes(struct io *io, const char *path);
bool io_identity_is_same(const struct io_identity *a, const struct io_identity *b);

/* Returns -ENAMETOOLONG with detail: folder + "/" + name, or just name if folder is "", does not
 * fit into IO_PATH_BYTES_MAX. */
int io_long_path_error(const char *folder, const char *name, struct err *err);
/* folder + "/" + name, or just name if folder is "" or ".". -ENAMETOOLONG. path holds
 * IO_PATH_BYTES_MAX and may be folder. */
int io_join_path(const char *folder, const char *name, char *path, struct err *err);
/* path + suffix, the name of something next to path. Slashes at the end of path are left out.
 * -ENAMETOOLONG. sibling holds IO_PATH_BYTES_MAX. */
int io_sibling_path(const char *path, const char *suffix, char *sibling, struct err *err);
/* "." if path has no folder part. folder holds IO_PATH_BYTES_MAX. */
void io_parent_path(const char *path, char *folder);

#endif
