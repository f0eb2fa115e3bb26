/*
 * io_threads — reads and writes local files on threads with pread and pwrite; works everywhere.
 * Shares everything except the queue with other engines; see file_local.h.
 */
#include "io/engines/file_queue.h"
#include "io/engines/file_transfer.h"
#include "io/local/file_local.h"

#include <errno.h>
#include <stdlib.h>

/* Immutable after open. */
struct io_threads {
    struct io base;
    unsigned threads; /* per queue */
    enum io_cache cache;
};

static int threads_queue_open(struct io *io, unsigned depth, struct io_queue **ret_queue,
                              struct err *err)
{
    const struct io_threads *threads = (struct io_threads *)io;
    return file_queue_open(depth, threads->threads, threads->cache, ret_queue, err);
}

static unsigned threads_direct_align(struct io *io, struct io_file *file)
{
    return file_direct_align(file, ((const struct io_threads *)io)->cache);
}

static void threads_close(struct io *io)
{
    free(io);
}

static const struct io_ops threads_ops = {
    .name = "threads",
    LOCAL_FILE_OPS,
    .direct_align = threads_direct_align,
    .queue_open = threads_queue_open,
    .queue_close = file_queue_close,
    .submit = file_queue_submit,
    .reap = file_queue_reap,
    .cancel = file_queue_cancel,
    .close = threads_close,
};

int io_threads_open(const struct io_options *options, struct io **ret_io, struct err *err)
{
    struct io_threads *io = malloc(sizeof *io);
    if (!io)
        return err_set(err, -ENOMEM, "out of memory for the local file backend");
    *io =
        (struct io_threads){.base = {&threads_ops, &local_names, &local_transactions, &local_locks},
                            .threads = file_queue_threads(options),
                            .cache = options ? options->cache : IO_CACHE_AUTO};
    *ret_io = &io->base;
    return 0;
}
