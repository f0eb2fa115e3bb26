/*
 * checked_folder — see checked_folder.h.
 */
#include "convert/checkpoint/checked_folder.h"

#include "base/bytes.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { READBACK_BYTES = 1 << 20 };

static int open_folder(struct checked_folder *folder, struct io *io, const char *target,
                       struct err *err)
{
    *folder =
        (struct checked_folder){.io = io, .target = target, .readback = malloc(READBACK_BYTES)};
    if (!folder->readback)
        return err_set(err, -ENOMEM, "not enough memory to write a folder");
    return io->ops->queue_open(io, 1, &folder->queue, err);
}

int checked_folder_begin(struct checked_folder *folder, struct io *io,
                         const struct io_transaction_options *transaction, struct err *err)
{
    int status = open_folder(folder, io, transaction->path, err);
    return status ? status : io->transactions->begin(io, transaction, &folder->transaction, err);
}

int checked_folder_open_existing(struct checked_folder *folder, struct io *io, const char *path,
                                 struct err *err)
{
    int status = open_folder(folder, io, path, err);
    folder->is_comparing = true;
    return status;
}

void checked_folder_compare(struct checked_folder *folder)
{
    folder->is_comparing = true;
}

int checked_folder_commit(struct checked_folder *folder, struct err *err)
{
    struct io_transaction *transaction = folder->transaction;
    folder->transaction = NULL;
    return folder->io->transactions->commit(transaction, err);
}

void checked_folder_deinit(struct checked_folder *folder, bool keep)
{
    if (folder->queue)
        folder->io->ops->queue_close(folder->queue);
    if (folder->transaction && keep)
        folder->io->transactions->leave(folder->transaction);
    else if (folder->transaction)
        folder->io->transactions->abort(folder->transaction);
    free(folder->readback);
}

int checked_file_open(struct checked_folder *folder, struct checked_file *ret_file,
                      const char *name, uint64_t bytes, struct err *err)
{
    const struct io_ops *ops = folder->io->ops;
    const char *folder_path = folder->is_comparing && folder->transaction
                                  ? folder->io->transactions->staging_path(folder->transaction)
                                  : folder->target;
    int status = io_join_path(folder_path, name, ret_file->path, err);
    if (status)
        return status;
    if (folder->is_comparing) {
        status = ops->file_open(folder->io, ret_file->path, &ret_file->file, err);
        folder->has_mismatch |= status == -ENOENT;
        return status;
    }
    return folder->io->transactions->create(folder->transaction, name, bytes, &ret_file->file, err);
}

static int report_mismatch(struct checked_folder *folder, const struct checked_file *file,
                           uint64_t offset, struct err *err)
{
    folder->has_mismatch = true;
    err_set(err, -EBADMSG, "a written file differs from its contents in memory");
    err_at(err, file->path, (int64_t)offset);
    err_advise(err, "%.200s was not written; convert again: the disk or the memory may be failing",
               folder->target);
    return -EBADMSG;
}

static int compare_with_file(struct checked_folder *folder, const struct checked_file *file,
                             uint64_t offset, const char *data, size_t bytes, struct err *err)
{
    for (size_t at = 0; at < bytes;) {
        size_t step = bytes_min(bytes - at, READBACK_BYTES), same = 0;
        int status = io_read_exact(folder->queue, folder->io, file->file, file->path, offset + at,
                                   folder->readback, step, err);
        folder->has_mismatch |= status == -ENODATA; /* the file is shorter than expected */
        if (status)
            return status;
        if (memcmp(data + at, folder->readback, step) != 0) {
            while (data[at + same] == folder->readback[same])
                same++;
            return report_mismatch(folder, file, offset + at + same, err);
        }
        at += step;
    }
    return 0;
}

int checked_file_put(struct checked_folder *folder, const struct checked_file *file,
                     uint64_t offset, const void *data, size_t bytes, struct err *err)
{
    if (folder->is_comparing)
        return compare_with_file(folder, file, offset, data, bytes, err);
    return io_write_exact(folder->queue, folder->io, file->file, file->path, offset, data, bytes,
                          err);
}

int checked_file_close(struct checked_folder *folder, struct checked_file *file, uint64_t bytes,
                       int status, struct err *err)
{
    const struct io_ops *ops = folder->io->ops;
    if (!folder->is_comparing) /* aborting the transaction closes an unfinalized file */
        return status ? status
                      : folder->io->transactions->finalize(folder->transaction, file->file, bytes,
                                                           err);
    uint64_t found_bytes = ops->file_size(file->file);
    ops->file_close(file->file);
    if (!status && found_bytes != bytes)
        status = report_mismatch(folder, file, bytes_min(found_bytes, bytes), err);
    return status;
}
