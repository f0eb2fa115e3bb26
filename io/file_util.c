/*
 * file_util — see file_util.h.
 */
#include "io/file_util.h"

#include "base/bytes.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ssize_t io_run_request(struct io_queue *queue, struct io *io, struct io_request *request)
{
    struct io_request *done = NULL;
    int taken = io->ops->submit(queue, &request, 1);
    if (taken < 0)
        return taken;
    assert(taken == 1); /* the caller's queue is idle */
    while (!done) {
        int count = io->ops->reap(queue, &done, 1, 1, IO_FOREVER);
        if (count < 0)
            return count;
    }
    assert(done == request);
    return request->result;
}

static int request_error(struct err *err, int code, const char *what, const char *path,
                         uint64_t offset)
{
    err_errno(err, code, "%s", what);
    err_at(err, path, (int64_t)offset);
    if (code == -EBADMSG) /* compressed: seekable_io.h */
        err_advise(err, "copy the file again; `millrace verify` checks all of it");
    return code;
}

int io_read_exact(struct io_queue *queue, struct io *io, struct io_file *file, const char *path,
                  uint64_t offset, void *data, size_t bytes, struct err *err)
{
    struct io_request request = {
        .kind = IO_READ, .file = file, .offset = offset, .data = data, .bytes = bytes};
    ssize_t result = bytes > 0 ? io_run_request(queue, io, &request) : 0;
    if (result < 0)
        return request_error(err, (int)result, "could not read", path, offset);
    if ((size_t)result < bytes) {
        err_set(err, -ENODATA, "the file ends too early");
        err_at(err, path, (int64_t)offset);
        err_expected(err, "%zu bytes", bytes);
        err_found(err, "%zd", result);
        err_advise(
            err,
            "the file was truncated or does not match its description; fetch or create it again");
        return -ENODATA;
    }
    return 0;
}

int io_write_exact(struct io_queue *queue, struct io *io, struct io_file *file, const char *path,
                   uint64_t offset, const void *data, size_t bytes, struct err *err)
{
    struct io_request request = {.kind = IO_WRITE,
                                 .file = file,
                                 .offset = offset,
                                 .data = (void *)(uintptr_t)data,
                                 .bytes = bytes};
    ssize_t result = bytes > 0 ? io_run_request(queue, io, &request) : 0;
    return result < 0 ? request_error(err, (int)result, "could not write", path, offset) : 0;
}

/* Allocates and reads the first bytes of an open file, and appends a NUL. */
static int read_first_bytes(struct io *io, struct io_file *file, const char *path, size_t bytes,
                            char **ret_data, struct err *err)
{
    struct io_queue *queue = NULL;
    char *data = malloc(bytes + 1);
    if (!data)
        return err_set(err, -ENOMEM, "out of memory for a file of %zu bytes", bytes);
    int status = io->ops->queue_open(io, 1, &queue, err);
    if (!status)
        status = io_read_exact(queue, io, file, path, 0, data, bytes, err);
    if (queue)
        io->ops->queue_close(queue);
    if (status) {
        free(data);
        return status;
    }
    data[bytes] = '\0';
    *ret_data = data;
    return 0;
}

static int read_whole_file(struct io *io, const char *path, size_t bytes_max, char **ret_data,
                           size_t *ret_bytes, struct err *err)
{
    struct io_file *file = NULL;
    int status = io->ops->file_open(io, path, &file, err);
    if (status)
        return status;
    uint64_t bytes = io->ops->file_size(file);
    if (bytes > bytes_max) {
        status = err_set(err, -EFBIG, "the file is too large");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "at most %zu bytes", bytes_max);
        err_found(err, "%llu", (unsigned long long)bytes);
    } else {
        status = read_first_bytes(io, file, path, (size_t)bytes, ret_data, err);
    }
    if (!status)
        *ret_bytes = (size_t)bytes;
    io->ops->file_close(file);
    return status;
}

int io_read_file(struct io *io, const char *path, size_t bytes_max, char **ret_data,
                 size_t *ret_bytes, struct err *err)
{
    struct io *own_io = NULL;
    int status = io_serves(io, path) ? 0 : io_open(path, NULL, &own_io, err);
    if (!status)
        status = read_whole_file(own_io ? own_io : io, path, bytes_max, ret_data, ret_bytes, err);
    io_close(own_io);
    return status;
}

int io_read_head(struct io *io, const char *path, size_t bytes_max, struct io_head *ret_head,
                 struct err *err)
{
    struct io_file *file = NULL;
    struct io_head head = {0};
    int status = io->ops->file_open(io, path, &file, err);
    if (status)
        return status;
    head.file_bytes = io->ops->file_size(file);
    head.bytes = (size_t)bytes_min(head.file_bytes, bytes_max);
    status = read_first_bytes(io, file, path, head.bytes, &head.data, err);
    if (!status)
        *ret_head = head;
    io->ops->file_close(file);
    return status;
}

int io_write_transaction_file(struct io *io, struct io_transaction *transaction, const char *name,
                              const char *path, const void *data, size_t bytes, struct err *err)
{
    struct io_queue *queue = NULL;
    struct io_file *file = NULL;
    int status = io->ops->queue_open(io, 1, &queue, err);
    if (!status)
        status = io->transactions->create(transaction, name, bytes, &file, err);
    if (!status)
        status = io_write_exact(queue, io, file, path, 0, data, bytes, err);
    if (queue)
        io->ops->queue_close(queue);
    return status ? status : io->transactions->finalize(transaction, file, bytes, err);
}

int io_write_file(struct io *io, const char *path, const void *data, size_t bytes, bool replace,
                  struct err *err)
{
    struct io_transaction_options options = {.path = path, .single_file = true, .replace = replace};
    struct io_transaction *transaction = NULL;
    int status = io->transactions->begin(io, &options, &transaction, err);
    if (!status)
        status = io_write_transaction_file(io, transaction, "", path, data, bytes, err);
    if (!status)
        return io->transactions->commit(transaction, err);
    io->transactions->abort(transaction);
    return status;
}

int io_lock_shared(struct io *io, const char *path, bool is_exclusive,
                   struct io_shared_lock **ret_lock, struct err *err)
{
    if (io->locks->lock_shared)
        return io->locks->lock_shared(io, path, is_exclusive, ret_lock, err);
    *ret_lock = NULL;
    return 0;
}

void io_unlock_shared(struct io *io, struct io_shared_lock *lock)
{
    if (lock)
        io->locks->unlock_shared(lock);
}

int io_resolve(struct io *io, const char *path, char *full_path, struct err *err)
{
    return io->names->resolve ? io->names->resolve(io, path, full_path, err)
                              : io_join_path("", path, full_path, err);
}

uint64_t io_gap_bytes(struct io *io, const char *path)
{
    return io->names->gap_bytes ? io->names->gap_bytes(io, path) : IO_GAP_BYTES_DEFAULT;
}

bool io_identity_is_same(const struct io_identity *a, const struct io_identity *b)
{
    return a->bytes_count == b->bytes_count && memcmp(a->bytes, b->bytes, a->bytes_count) == 0;
}

int io_long_path_error(const char *folder, const char *name, struct err *err)
{
    static_assert((int)ERR_PATH_BYTES_MAX == (int)IO_PATH_BYTES_MAX, "an error names any path");
    char path[IO_PATH_BYTES_MAX];
    int bytes = snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name);
    err_set(err, -ENAMETOOLONG, "the path is too long");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "at most %d bytes", IO_PATH_BYTES_MAX - 1);
    err_found(err, "%d", bytes);
    err_advise(err, "choose a shorter path");
    return -ENAMETOOLONG;
}

int io_join_path(const char *folder, const char *name, char *path, struct err *err)
{
    size_t folder_bytes = strcmp(folder, ".") == 0 ? 0 : strlen(folder), name_bytes = strlen(name);
    bool needs_slash = folder_bytes > 0 && folder[folder_bytes - 1] != '/';
    if (folder_bytes + needs_slash + name_bytes >= IO_PATH_BYTES_MAX)
        return io_long_path_error(folder, name, err);
    /* folder may be path itself */
    memmove(path + folder_bytes + needs_slash, name, name_bytes + 1);
    memmove(path, folder, folder_bytes);
    if (needs_slash)
        path[folder_bytes] = '/';
    return 0;
}

int io_sibling_path(const char *path, const char *suffix, char *sibling, struct err *err)
{
    size_t bytes = strlen(path);
    while (bytes > 1 && path[bytes - 1] == '/')
        bytes--;
    return snprintf(sibling, IO_PATH_BYTES_MAX, "%.*s%s", (int)bytes, path, suffix) >=
                   IO_PATH_BYTES_MAX
               ? io_long_path_error("", path, err)
               : 0;
}

void io_parent_path(const char *path, char *folder)
{
    size_t bytes = strlen(path);
    while (bytes > 1 && path[bytes - 1] == '/')
        bytes--; /* trailing slashes */
    while (bytes > 0 && path[bytes - 1] != '/')
        bytes--; /* the name */
    while (bytes > 1 && path[bytes - 1] == '/' && path[bytes - 2] != '/' && path[bytes - 2] != ':')
        bytes--;
    if (bytes == 0) {
        strcpy(folder, io_scheme_bytes(path) ? "file:." : ".");
        return;
    }
    assert(bytes < IO_PATH_BYTES_MAX);
    memcpy(folder, path, bytes);
    folder[bytes] = '\0';
}
