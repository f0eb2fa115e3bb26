/*
 * uring_queue — see uring_queue.h.
 *
 *     submit -> operation, entry in the ring -> the kernel -> completion
 *     completion -> incomplete? entry again : done list -> reap
 *
 * Each request in flight has an `operation`, its file_transfer.h state, whose index is the kernel's
 * user_data. The kernel's completion ring has four times as many slots, so it cannot overflow.
 * After open only the kernel allocates memory.
 *
 * Requests that need no system call, or that the kernel has completed, wait in the done list. If
 * the kernel has no memory for an entry, the entry stays in the submission ring. Every reap first
 * flushes that ring.
 *
 * Registering memory touches every page. Each buffer of BUFFER_BYTES is registered only when a
 * request first uses it, so that registering a gigabyte does not delay the first batch.
 */
#include "io/engines/uring_queue.h"

#include "base/clock.h"
#include "io/engines/file_transfer.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <time.h>

enum {
    BUFFER_BYTES = 16 << 20,
    BUFFERS_MAX = 1 << 14, /* the kernel's limit on registered buffers */
    PROBE_ENTRIES = 512,   /* the loader's depth: rings may count against RLIMIT_MEMLOCK */
    NO_OPERATION = -1,
};
#define CANCEL_MARK (UINT64_MAX - 1) /* user_data of cancellations */

enum buffer_state { BUFFER_UNKNOWN, BUFFER_REGISTERED, BUFFER_REFUSED };

/* Owner thread. One in-flight request. */
struct operation {
    struct file_transfer transfer; /* transfer.request is NULL while the operation is free */
    int next_free;
};

/* Owner thread. */
struct io_queue {
    struct io_uring ring;
    enum io_cache cache;
    unsigned depth;
    unsigned unreaped_count; /* at most depth */
    unsigned in_kernel_count;
    unsigned done_count;
    struct io_request *done_first, **done_end;
    int first_free;
    int failure; /* -errno once the ring is unusable or closed */
    bool has_ring;
    bool is_closing; /* incomplete requests are not continued */
    /* Registered memory. */
    uint8_t *memory;
    size_t memory_bytes;
    uint8_t *buffers; /* enum buffer_state of each; NULL: nothing can be registered */
    struct operation operations[];
};

/* ---- Life cycle. ---- */

/* ThreadSanitizer does not see the kernel map rings. This orders a ring after another thread's
 * former ring at the same address. */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
static const char rings;
#define ORDER_RINGS(call) call((void *)(uintptr_t)&rings)
#else
#define ORDER_RINGS(call) (void)0
#endif

/* Needs reads and writes at offsets, no lost completions, and timed waits: Linux 5.11. */
static int init_ring(unsigned entries, struct io_uring *ring)
{
    struct io_uring_params params = {0};
    const unsigned needed = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;
    int status = io_uring_queue_init_params(entries, ring, &params);
    if (status)
        return status;
    if ((params.features & needed) == needed)
        return 0;
    io_uring_queue_exit(ring);
    return -ENOSYS;
}

int uring_queue_probe(void)
{
    struct io_uring ring;
    int status = init_ring(PROBE_ENTRIES, &ring);
    if (!status)
        io_uring_queue_exit(&ring);
    return status;
}

int uring_queue_open(unsigned depth, enum io_cache cache, struct io_queue **ret_queue,
                     struct err *err)
{
    if (depth < 1 || depth > IO_QUEUE_DEPTH_MAX) {
        err_set(err, -EINVAL, "the size of the I/O queue is out of range: depth %u", depth);
        err_expected(err, "depth 1 to %d", IO_QUEUE_DEPTH_MAX);
        return -EINVAL;
    }
    struct io_queue *queue = calloc(1, sizeof *queue + depth * sizeof queue->operations[0]);
    if (!queue)
        return err_set(err, -ENOMEM, "out of memory for an I/O queue");
    int status = init_ring(2 * depth, &queue->ring); /* half of the entries are for cancellations */
    if (status) {
        free(queue);
        err_errno(err, status, "could not open an io_uring queue");
        return status;
    }
    ORDER_RINGS(__tsan_acquire);
    queue->has_ring = true;
    queue->cache = cache;
    queue->depth = depth;
    queue->done_end = &queue->done_first;
    for (unsigned i = 0; i < depth; i++)
        queue->operations[i].next_free = i + 1 < depth ? (int)i + 1 : NO_OPERATION;
    *ret_queue = queue;
    return 0;
}

/* ---- Registered memory. ---- */

void uring_queue_register(struct io_queue *queue, void *memory, size_t bytes)
{
    assert(!queue->memory && (uintptr_t)memory % IO_ALIGN_BYTES == 0);
    size_t buffers = (bytes + BUFFER_BYTES - 1) / BUFFER_BYTES;
    if (buffers == 0 || buffers > BUFFERS_MAX ||
        io_uring_register_buffers_sparse(&queue->ring, (unsigned)buffers))
        return;
    queue->buffers = calloc(buffers, 1);
    queue->memory = memory;
    queue->memory_bytes = bytes;
}

/* The index of the registered buffer that contains the call's memory; -1: none. */
static int find_or_register_buffer(struct io_queue *queue, const struct file_call *call)
{
    uintptr_t at = (uintptr_t)call->data, begin = (uintptr_t)queue->memory;
    if (!queue->buffers || at < begin || at - begin + call->bytes > queue->memory_bytes)
        return -1;
    size_t buffer = (at - begin) / BUFFER_BYTES, first = buffer * BUFFER_BYTES;
    if ((at - begin) + call->bytes > first + BUFFER_BYTES)
        return -1;
    if (queue->buffers[buffer] != BUFFER_UNKNOWN)
        return queue->buffers[buffer] == BUFFER_REGISTERED ? (int)buffer : -1;
    size_t left = queue->memory_bytes - first;
    struct iovec vector = {.iov_base = queue->memory + first,
                           .iov_len = left < BUFFER_BYTES ? left : BUFFER_BYTES};
    __u64 tag = 0;
    bool is_registered =
        io_uring_register_buffers_update_tag(&queue->ring, (unsigned)buffer, &vector, &tag, 1) == 1;
    queue->buffers[buffer] =
        is_registered ? BUFFER_REGISTERED : BUFFER_REFUSED; /* by RLIMIT_MEMLOCK */
    return is_registered ? (int)buffer : -1;
}

/* ---- Submitting. ---- */

static void complete(struct io_queue *queue, struct io_request *request)
{
    request->next = NULL;
    *queue->done_end = request;
    queue->done_end = &request->next;
    queue->done_count++;
}

/* The submission ring has room for every operation. */
static void enqueue(struct io_queue *queue, struct operation *operation)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&queue->ring);
    assert(entry);
    struct file_call call = file_transfer_next(&operation->transfer);
    int buffer = find_or_register_buffer(queue, &call);
    unsigned bytes = (unsigned)call.bytes;
    uint64_t offset = (uint64_t)call.offset;
    if (operation->transfer.request->kind == IO_READ) {
        if (buffer >= 0)
            io_uring_prep_read_fixed(entry, call.fd, call.data, bytes, offset, buffer);
        else
            io_uring_prep_read(entry, call.fd, call.data, bytes, offset);
    } else if (buffer >= 0) {
        io_uring_prep_write_fixed(entry, call.fd, call.data, bytes, offset, buffer);
    } else {
        io_uring_prep_write(entry, call.fd, call.data, bytes, offset);
    }
    entry->user_data = (uint64_t)(operation - queue->operations);
    queue->in_kernel_count++;
}

static void free_operation(struct io_queue *queue, struct operation *operation)
{
    operation->transfer.request = NULL;
    operation->next_free = queue->first_free;
    queue->first_free = (int)(operation - queue->operations);
}

static bool is_transient(int code)
{
    return code == -EINTR || code == -EAGAIN || code == -EBUSY;
}

static void flush(struct io_queue *queue)
{
    int status = io_uring_submit(&queue->ring);
    if (status < 0 && !is_transient(status))
        queue->failure = status;
}

int uring_queue_submit(struct io_queue *queue, struct io_request *const *requests, unsigned count)
{
    unsigned room = queue->depth - queue->unreaped_count;
    if (queue->failure)
        return queue->failure;
    if (count > room)
        count = room;
    for (unsigned i = 0; i < count; i++) {
        assert(queue->first_free != NO_OPERATION);
        struct operation *operation = &queue->operations[queue->first_free];
        if (file_transfer_begin(&operation->transfer, requests[i], queue->cache) == FILE_DONE) {
            operation->transfer.request = NULL;
            complete(queue, requests[i]);
            continue;
        }
        queue->first_free = operation->next_free;
        enqueue(queue, operation);
    }
    queue->unreaped_count += count;
    if (count > 0)
        flush(queue);
    return (int)count;
}

/* ---- Reaping. ---- */

static void handle_completion(struct io_queue *queue, struct operation *operation, int result)
{
    struct io_request *request = operation->transfer.request;
    queue->in_kernel_count--;
    enum file_progress progress = file_transfer_advance(&operation->transfer, result);
    if (progress != FILE_DONE && queue->is_closing) {
        request->result = -ECANCELED;
        progress = FILE_DONE;
    }
    if (progress == FILE_DONE) {
        free_operation(queue, operation);
        complete(queue, request);
        return;
    }
    if (progress == FILE_RETRY_LATER)
        clock_sleep_ns(FILE_RETRY_NS);
    enqueue(queue, operation);
}

/* Returns the number of completions. */
static unsigned reap_completions(struct io_queue *queue)
{
    struct io_uring_cqe *completion;
    unsigned head, count = 0;
    io_uring_for_each_cqe(&queue->ring, head, completion)
    {
        count++;
        if (completion->user_data != CANCEL_MARK)
            handle_completion(queue, &queue->operations[completion->user_data], completion->res);
    }
    io_uring_cq_advance(&queue->ring, count);
    return count;
}

/* Submits the ring's entries and waits for count_min completions or timeout_ns (negative: no
 * limit). Returns false on timeout or if the ring has failed. */
static bool enter(struct io_queue *queue, unsigned count_min, int64_t timeout_ns)
{
    struct io_uring_cqe *first;
    struct __kernel_timespec timeout = {.tv_sec = timeout_ns / (int64_t)CLOCK_NS_PER_S,
                                        .tv_nsec = timeout_ns % (int64_t)CLOCK_NS_PER_S};
    int status = io_uring_submit_and_wait_timeout(&queue->ring, &first, count_min,
                                                  timeout_ns < 0 ? NULL : &timeout, NULL);
    if (status >= 0 || status == -EINTR)
        return true;
    /* The kernel is short of memory, or needs its completions reaped first. */
    if (is_transient(status)) {
        clock_sleep_ns(FILE_RETRY_NS);
        return true;
    }
    if (status != -ETIME)
        queue->failure = status;
    return false;
}

static void wait_until_done(struct io_queue *queue, unsigned count_min, int timeout_ms)
{
    uint64_t deadline_ns = clock_now_ns() + (timeout_ms > 0 ? (uint64_t)timeout_ms * 1000000 : 0);
    bool is_waiting = timeout_ms != 0 && !queue->failure;
    while (is_waiting && queue->done_count < count_min) {
        int64_t left_ns = -1;
        if (timeout_ms > 0) {
            uint64_t now_ns = clock_now_ns();
            left_ns = now_ns < deadline_ns ? (int64_t)(deadline_ns - now_ns) : 0;
        }
        is_waiting = enter(queue, count_min - queue->done_count, left_ns) && left_ns != 0;
        reap_completions(queue);
    }
}

/* Requests in the submission ring that the kernel has not taken. */
static unsigned unsubmitted_count(const struct io_queue *queue)
{
    const struct io_uring_sq *ring = &queue->ring.sq;
    unsigned count = 0;
    for (unsigned i = io_uring_sq_ready(&queue->ring); i > 0; i--)
        count += ring->sqes[(ring->sqe_tail - i) & *ring->kring_mask].user_data != CANCEL_MARK;
    return count;
}

/* Closing a ring does not wait for requests in flight, which keep writing to memory. A failed ring
 * still shows completions: requests on disk files finish on their own or are canceled (Linux
 * 6.0). */
static void wait_for_requests_in_flight(struct io_queue *queue)
{
    struct io_uring_sync_cancel_reg all = {
        .fd = -1, .flags = IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_ANY};
    queue->is_closing = true;
    reap_completions(queue);
    while (queue->in_kernel_count > unsubmitted_count(queue)) {
        io_uring_register_sync_cancel(&queue->ring, &all);
        clock_sleep_ns(FILE_RETRY_NS);
        reap_completions(queue);
    }
}

/* Returns all requests in flight to their callers. */
static void release_all(struct io_queue *queue)
{
    if (queue->has_ring) {
        wait_for_requests_in_flight(queue);
        ORDER_RINGS(__tsan_release);
        io_uring_queue_exit(&queue->ring);
    }
    queue->has_ring = false;
    queue->unreaped_count = queue->in_kernel_count = queue->done_count = 0;
    queue->done_first = NULL;
    queue->done_end = &queue->done_first;
    for (unsigned i = 0; i < queue->depth; i++) {
        if (queue->operations[i].transfer.request)
            queue->operations[i].transfer.request->result = -ECANCELED;
        queue->operations[i].transfer.request = NULL;
    }
}

int uring_queue_reap(struct io_queue *queue, struct io_request **done, unsigned count_max,
                     unsigned count_min, int timeout_ms)
{
    if (count_min > count_max)
        count_min = count_max;
    if (queue->has_ring)
        reap_completions(queue);
    wait_until_done(queue, count_min < queue->unreaped_count ? count_min : queue->unreaped_count,
                    timeout_ms);
    if (!queue->failure && io_uring_sq_ready(&queue->ring) > 0)
        flush(queue); /* submits the rest of short transfers */
    unsigned count = 0;
    while (count < count_max && queue->done_first) {
        struct io_request *request = queue->done_first;
        queue->done_first = request->next;
        done[count++] = request;
    }
    if (!queue->done_first)
        queue->done_end = &queue->done_first;
    queue->done_count -= count;
    queue->unreaped_count -= count;
    if (count > 0 || !queue->failure)
        return (int)count;
    release_all(queue);
    return queue->failure;
}

/* ---- Ending. ---- */

static void queue_cancel(struct io_queue *queue, const struct operation *operation)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&queue->ring);
    io_uring_prep_cancel64(entry, (uint64_t)(operation - queue->operations), 0);
    entry->user_data = CANCEL_MARK;
}

void uring_queue_cancel(struct io_queue *queue, struct io_request *request)
{
    if (queue->failure || io_uring_sq_space_left(&queue->ring) <= queue->depth ||
        io_uring_cq_ready(&queue->ring) > 2 * queue->depth)
        /* too many unprocessed cancellations or completions: the request ends normally */
        return;
    for (unsigned i = 0; i < queue->depth; i++) {
        if (queue->operations[i].transfer.request != request)
            continue;
        queue_cancel(queue, &queue->operations[i]);
        flush(queue);
        return;
    }
}

/* Cancels and waits: afterwards the callers own their requests' memory. */
static void cancel_all(struct io_queue *queue)
{
    queue->is_closing = true;
    for (unsigned i = 0; i < queue->depth; i++)
        if (queue->operations[i].transfer.request && io_uring_sq_space_left(&queue->ring) > 0)
            queue_cancel(queue, &queue->operations[i]);
    while (queue->in_kernel_count > 0 && !queue->failure) {
        enter(queue, 1, -1);
        reap_completions(queue);
    }
}

void uring_queue_close(struct io_queue *queue)
{
    if (!queue)
        return;
    if (queue->has_ring)
        cancel_all(queue);
    release_all(queue);
    free(queue->buffers);
    free(queue);
}
