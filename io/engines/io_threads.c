/*
 * io_threads — reads and writes local files on threads with pread and pwrite; works everywhere.
 * Shares everything except the queue with other engines; see file_local.h.
 */
#include "base/clock.h"
#include "io/engines/file_transfer.h"
#include "io/engines/thread_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int local_open(const struct io_ops *ops, const struct io_options *options, struct io **ret_io,
               struct err *err)
{
    struct local_io *io = malloc(sizeof *io);
    if (!io)
        return err_set(err, -ENOMEM, "out of memory for the local file backend");
    *io = (struct local_io){.base = {ops, &local_names, &local_transactions, &local_locks},
                            .cache = options ? options->cache : IO_CACHE_AUTO,
                            .threads = thread_queue_threads(options),
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

/* Returns bytes moved: fewer than requested only if a read reaches the file's end. */
static ssize_t run_transfer(void *context, unsigned thread, struct io_request *request)
{
    const struct local_io *local = context;
    struct file_transfer at;
    enum file_progress progress = file_transfer_begin(&at, request, local->cache);
    (void)thread;
    while (progress != FILE_DONE) {
        struct file_call call = file_transfer_next(&at);
        ssize_t moved = request->kind == IO_READ
                            ? pread(call.fd, call.data, call.bytes, call.offset)
                            : pwrite(call.fd, call.data, call.bytes, call.offset);
        progress = file_transfer_advance(&at, moved < 0 ? -errno : moved);
        if (progress == FILE_RETRY_LATER)
            clock_sleep_ns(FILE_RETRY_NS);
    }
    return request->result;
}

int local_threads_open(struct io *io, unsigned depth, struct io_queue **ret_queue, struct err *err)
{
    const struct thread_queue_work work = {run_transfer, io};
    return thread_queue_open(depth, ((const struct local_io *)io)->threads, &work, ret_queue, err);
}

static const struct io_ops threads_ops = {
    .name = "threads",
    LOCAL_FILE_OPS,
    .queue_open = local_threads_open,
    .queue_close = thread_queue_close,
    .submit = thread_queue_submit,
    .reap = thread_queue_reap,
    .cancel = thread_queue_cancel,
};

int io_threads_open(const struct io_options *options, struct io **ret_io, struct err *err)
{
    return local_open(&threads_ops, options, ret_io, err);
}
