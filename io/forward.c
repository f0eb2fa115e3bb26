/*
 * forward — see forward.h.
 */
#include "io/forward.h"

#include "io/file_util.h"

static struct io *inner_of(struct io *io)
{
    return ((struct io_forward *)io)->inner;
}

int io_forward_queue_open(struct io *io, unsigned depth, struct io_queue **ret_queue,
                          struct err *err)
{
    return inner_of(io)->ops->queue_open(inner_of(io), depth, ret_queue, err);
}

int io_forward_resolve(struct io *io, const char *path, char *full_path, struct err *err)
{
    return io_resolve(inner_of(io), path, full_path, err);
}

int io_forward_stat(struct io *io, const char *path, struct io_stat *ret_stat, struct err *err)
{
    return inner_of(io)->names->stat(inner_of(io), path, ret_stat, err);
}

uint64_t io_forward_gap_bytes(struct io *io, const char *path)
{
    return io_gap_bytes(inner_of(io), path);
}

int io_forward_list(struct io *io, const char *path,
                    int (*entry)(void *context, const struct io_entry *entry), void *context,
                    struct err *err)
{
    return inner_of(io)->names->list(inner_of(io), path, entry, context, err);
}

int io_forward_make_folder(struct io *io, const char *path, struct err *err)
{
    return inner_of(io)->names->make_folder(inner_of(io), path, err);
}

int io_forward_remove(struct io *io, const char *path, struct err *err)
{
    return inner_of(io)->names->remove(inner_of(io), path, err);
}

int io_forward_begin(struct io *io, const struct io_transaction_options *options,
                     struct io_transaction **ret_transaction, struct err *err)
{
    return inner_of(io)->transactions->begin(inner_of(io), options, ret_transaction, err);
}

int io_forward_lock_shared(struct io *io, const char *path, bool is_exclusive,
                           struct io_shared_lock **ret_lock, struct err *err)
{
    return io_lock_shared(inner_of(io), path, is_exclusive, ret_lock, err);
}
