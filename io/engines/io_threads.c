/*
 * io_threads — reads and writes local files on threads with pread and pwrite; works everywhere.
 * Shares everything except the queue with other engines; see file_local.h.
 */
#include "io/engines/file_queue.h"
#include "io/engines/file_transfer.h"
#include "io/local/file_local.h"

#include <errno.h>
#include <stdlib.h>

int local_open(const struct io_ops *ops, const struct io_options *options, struct io **ret_io,
               struct err *err)
{
    struct local_io *io = malloc(sizeof *io);
    if (!io)
        return err_set(err, -ENOMEM, "out of memory for the local file backend");
    *io = (struct local_io){.base = {ops, &local_names, &local_transactions, &local_locks},
                            .cache = options ? options->cache : IO_CACHE_AUTO,
                            .threads = file_queue_threads(options),
                            .requires_ring = options && options->engine == IO_ENGINE_URING};
    *ret_io = &io->base;
    return 0;
}

void local_close(struct io *io)
{
    free(io);
}

unsigned local_direct_align(struct io *io, struct io_file *file)
{
    return file_direct_align(file, ((const struct local_io *)io)->cache);
}

static int threads_queue_open(struct io *io, unsigned depth, struct io_queue **ret_queue,
                              struct err *err)
{
    const struct local_io *local = (struct local_io *)io;
    return file_queue_open(depth, local->threads, local->cache, ret_queue, err);
}

static const struct io_ops threads_ops = {
    .name = "threads",
    LOCAL_FILE_OPS,
    .queue_open = threads_queue_open,
    .queue_close = file_queue_close,
    .submit = file_queue_submit,
    .reap = file_queue_reap,
    .cancel = file_queue_cancel,
};

int io_threads_open(const struct io_options *options, struct io **ret_io, struct err *err)
{
    return local_open(&threads_ops, options, ret_io, err);
}
