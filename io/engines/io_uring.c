/*
 * io_uring — reads and writes local files through Linux's io_uring: one ring per queue, no threads.
 * Shares everything except the queue with other engines; see file_local.h.
 *
 * If a queue gets no ring (some kernels charge its memory to RLIMIT_MEMLOCK), it uses threads,
 * unless this engine was requested by name.
 */
#include "io/engines/thread_queue.h"
#include "io/engines/uring_queue.h"
#include "io/local/file_local.h"

#include <errno.h>
#include <stdlib.h>

/* Exactly one is non-NULL. Immutable after open. */
struct io_queue {
    struct io_queue *ring, *threads;
};

static void ring_queue_close(struct io_queue *queue)
{
    if (!queue)
        return;
    uring_queue_close(queue->ring);
    thread_queue_close(queue->threads);
    free(queue);
}

static int ring_queue_open(struct io *io, unsigned depth, struct io_queue **ret_queue,
                           struct err *err)
{
    const struct local_io *local = (struct local_io *)io;
    struct io_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return err_set(err, -ENOMEM, "out of memory for an I/O queue");
    int status = uring_queue_open(depth, local->cache, &queue->ring, err);
    if (status && status != -EINVAL && local->requires_ring) {
        err_advise(err, "raise `ulimit -l`, or do not request io_uring by name, so that threads "
                        "are used instead");
    } else if (status && status != -EINVAL) {
        err_clear(err);
        status = local_threads_open(io, depth, &queue->threads, err);
    }
    if (status)
        ring_queue_close(queue);
    else
        *ret_queue = queue;
    return status;
}

static void ring_queue_register(struct io_queue *queue, void *memory, size_t bytes)
{
    if (queue->ring)
        uring_queue_register(queue->ring, memory, bytes);
}

static int ring_submit(struct io_queue *queue, struct io_request *const *requests, unsigned count)
{
    return queue->ring ? uring_queue_submit(queue->ring, requests, count)
                       : thread_queue_submit(queue->threads, requests, count);
}

static int ring_reap(struct io_queue *queue, struct io_request **done, unsigned count_max,
                     unsigned count_min, int timeout_ms)
{
    return queue->ring ? uring_queue_reap(queue->ring, done, count_max, count_min, timeout_ms)
                       : thread_queue_reap(queue->threads, done, count_max, count_min, timeout_ms);
}

static void ring_cancel(struct io_queue *queue, struct io_request *request)
{
    if (queue->ring)
        uring_queue_cancel(queue->ring, request);
    else
        thread_queue_cancel(queue->threads, request);
}

static const struct io_ops ring_ops = {
    .name = "io_uring",
    LOCAL_FILE_OPS,
    .queue_open = ring_queue_open,
    .queue_close = ring_queue_close,
    .queue_register = ring_queue_register,
    .submit = ring_submit,
    .reap = ring_reap,
    .cancel = ring_cancel,
};

int io_ring_open(const struct io_options *options, struct io **ret_io, struct err *err)
{
    int status = uring_queue_probe();
    if (status) {
        err_errno(err, status, "io_uring is not available to this process");
        err_advise(err, "read with threads; `millrace doctor` shows what blocks io_uring");
        return status;
    }
    return local_open(&ring_ops, options, ret_io, err);
}
