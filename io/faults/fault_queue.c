/*
 * fault_queue — requests of the fault-injecting backend.
 *
 *     submit -> waiting until due or released -> the inner queue -> done -> reap
 *                  `-> an error: done at once      `-> flip: inverts a bit of the data read, or
 *                                                      writes again one byte with a bit inverted
 *
 * Every entry has its own inner request, so the caller's request changes only when it is done. The
 * inner queue has a slot for every entry.
 */
#include "io/faults/fault_backend.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

enum { INNER_REAP_MAX = 64, NS_PER_MS = 1000000 };

enum entry_state { ENTRY_FREE, ENTRY_WAITING, ENTRY_INNER, ENTRY_DONE };

struct fault_entry {
    struct io_request inner;
    struct io_request *outer;
    struct fault_verdict verdict; /* effects not yet applied */
    enum entry_state state;
    uint64_t due_ns;
    uint8_t flipped;
};

/* Owner thread. */
struct io_queue {
    struct io_fault *fault;
    struct io_queue *inner;
    int failure; /* -errno that reap returns from now on; 0: none */
    unsigned depth, inner_count;
    struct fault_entry entries[];
};

static const struct io_ops *inner_ops(const struct io_queue *queue)
{
    return queue->fault->inner->ops;
}

static void start_entry(struct io_queue *queue, struct fault_entry *entry,
                        struct io_request *request)
{
    enum fault_operation operation = request->kind == IO_READ ? FAULT_READ : FAULT_WRITE;
    struct fault_verdict verdict =
        fault_apply(queue->fault, operation, request->file->path, request->offset);
    *entry =
        (struct fault_entry){.inner = *request,
                             .outer = request,
                             .verdict = verdict,
                             .state = ENTRY_WAITING,
                             .due_ns = verdict.delay_ns ? clock_now_ns() + verdict.delay_ns : 0};
    entry->inner.file = request->file->inner;
    entry->inner.user = entry;
    if (verdict.cuts && request->bytes > 0)
        entry->inner.bytes = verdict.cut_random % request->bytes;
    if (operation == FAULT_READ)
        atomic_fetch_add(&queue->fault->read_bytes, request->bytes);
    atomic_fetch_add(&queue->fault->held, verdict.holds);
}

static void release_hold(struct io_queue *queue, struct fault_entry *entry)
{
    atomic_fetch_sub(&queue->fault->held, entry->verdict.holds);
    entry->verdict.holds = false;
}

static void finish(struct fault_entry *entry, ssize_t result)
{
    entry->outer->result = result;
    entry->state = ENTRY_DONE;
}

/* Passes the entry to the inner queue, or fails it. */
static void forward(struct io_queue *queue, struct fault_entry *entry)
{
    int taken = entry->verdict.error;
    if (taken == 0)
        taken = inner_ops(queue)->submit(queue->inner, &(struct io_request *){&entry->inner}, 1);
    if (taken < 0) {
        finish(entry, taken);
        return;
    }
    assert(taken == 1);
    entry->state = ENTRY_INNER;
    queue->inner_count++;
}

/* A second write, so that the caller's memory is not modified. */
static void write_flipped_byte(struct io_queue *queue, struct fault_entry *entry)
{
    uint64_t bit = entry->verdict.flip_random % ((uint64_t)entry->inner.bytes * 8);
    const uint8_t *data = entry->inner.data;
    entry->flipped = data[bit / 8] ^ (uint8_t)(1u << bit % 8);
    entry->inner.offset += bit / 8;
    entry->inner.data = &entry->flipped;
    entry->inner.bytes = 1;
    entry->inner.flags = 0;
    entry->verdict.flips = false;
    forward(queue, entry);
}

/* Handles a finished inner request. */
static void handle_completion(struct io_queue *queue, struct fault_entry *entry)
{
    const struct fault_verdict *verdict = &entry->verdict;
    ssize_t result = entry->inner.result;
    bool is_write = entry->inner.kind == IO_WRITE;
    if (result > 0 && verdict->flips && is_write) {
        write_flipped_byte(queue, entry);
        return;
    }
    if (result > 0 && verdict->flips) {
        uint64_t bit = verdict->flip_random % ((uint64_t)result * 8);
        ((uint8_t *)entry->inner.data)[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    if (result >= 0 && is_write)
        result = verdict->cuts ? -ENOSPC : (ssize_t)entry->outer->bytes;
    finish(entry, result);
}

/* Starts all due entries. Returns when to check again; UINT64_MAX: none is waiting. */
static uint64_t forward_due(struct io_queue *queue)
{
    uint64_t now_ns = clock_now_ns(), next_ns = UINT64_MAX;
    bool is_released = atomic_load(&queue->fault->is_released);
    for (struct fault_entry *entry = queue->entries; entry < queue->entries + queue->depth;
         entry++) {
        if (entry->state != ENTRY_WAITING)
            continue;
        bool is_held = entry->verdict.holds && !is_released;
        if (is_held || entry->due_ns > now_ns) {
            next_ns = bytes_min(next_ns, is_held ? now_ns + FAULT_POLL_NS : entry->due_ns);
            continue;
        }
        release_hold(queue, entry);
        forward(queue, entry);
    }
    return next_ns;
}

int fault_queue_open(struct io *io, unsigned depth, struct io_queue **ret_queue, struct err *err)
{
    struct io_fault *fault = (struct io_fault *)io;
    struct io_queue *inner;
    struct fault_verdict verdict = fault_apply(fault, FAULT_QUEUE, "", 0);
    if (verdict.error)
        return err_errno(err, verdict.error, "an I/O queue was made to fail");
    if (fault->rules.depth > 0)
        depth = (unsigned)bytes_min(depth, fault->rules.depth);
    int status = fault->inner->ops->queue_open(fault->inner, depth, &inner, err);
    if (status)
        return status;
    struct io_queue *queue = calloc(1, sizeof *queue + depth * sizeof queue->entries[0]);
    if (!queue) {
        fault->inner->ops->queue_close(inner);
        return err_set(err, -ENOMEM, "out of memory for an I/O queue");
    }
    queue->fault = fault;
    queue->inner = inner;
    queue->depth = depth;
    *ret_queue = queue;
    return 0;
}

/* Closes the inner queue and returns all requests in flight to their callers. */
static void release_all(struct io_queue *queue)
{
    inner_ops(queue)->queue_close(queue->inner);
    queue->inner = NULL;
    for (struct fault_entry *entry = queue->entries; entry < queue->entries + queue->depth;
         entry++) {
        if (entry->state == ENTRY_FREE)
            continue;
        release_hold(queue, entry);
        if (entry->state != ENTRY_DONE)
            entry->outer->result = entry->state == ENTRY_INNER ? entry->inner.result : -ECANCELED;
        entry->state = ENTRY_FREE;
        atomic_fetch_sub(&queue->fault->in_flight, 1);
    }
}

void fault_queue_close(struct io_queue *queue)
{
    if (queue && queue->inner)
        release_all(queue);
    free(queue);
}

void fault_queue_register(struct io_queue *queue, void *memory, size_t bytes)
{
    if (inner_ops(queue)->queue_register)
        inner_ops(queue)->queue_register(queue->inner, memory, bytes);
}

int fault_queue_submit(struct io_queue *queue, struct io_request *const *requests, unsigned count)
{
    unsigned taken = 0;
    if (queue->failure)
        return queue->failure;
    for (unsigned i = 0; i < queue->depth && taken < count; i++)
        if (queue->entries[i].state == ENTRY_FREE)
            start_entry(queue, &queue->entries[i], requests[taken++]);
    atomic_fetch_add(&queue->fault->in_flight, taken);
    forward_due(queue);
    return (int)taken;
}

/* Waits up to timeout_ms for the inner queue. */
static int reap_inner(struct io_queue *queue, unsigned count_min, int timeout_ms)
{
    struct io_request *done[INNER_REAP_MAX];
    if (queue->inner_count == 0)
        return 0;
    int count = inner_ops(queue)->reap(queue->inner, done, INNER_REAP_MAX, count_min, timeout_ms);
    for (int i = 0; i < count; i++) {
        queue->inner_count--;
        handle_completion(queue, done[i]->user);
    }
    return count < 0 ? count : 0;
}

static unsigned take_done(struct io_queue *queue, struct io_request **done, unsigned count_max)
{
    unsigned count = 0;
    for (unsigned i = 0; i < queue->depth && count < count_max; i++) {
        struct fault_entry *entry = &queue->entries[i];
        if (entry->state == ENTRY_DONE) {
            done[count++] = entry->outer;
            entry->state = ENTRY_FREE;
        }
    }
    atomic_fetch_sub(&queue->fault->in_flight, count);
    return count;
}

/* Waits for the inner queue, but not beyond until_ns. */
static int wait_until(struct io_queue *queue, uint64_t now_ns, uint64_t until_ns)
{
    uint64_t wait_ns = until_ns - now_ns;
    bool is_long = until_ns == UINT64_MAX || wait_ns / NS_PER_MS >= INT_MAX;
    if (queue->inner_count > 0)
        return reap_inner(queue, 1, is_long ? IO_FOREVER : (int)(wait_ns / NS_PER_MS) + 1);
    clock_sleep_ns(wait_ns);
    return 0;
}

int fault_queue_reap(struct io_queue *queue, struct io_request **done, unsigned count_max,
                     unsigned count_min, int timeout_ms)
{
    if (!queue->failure)
        queue->failure = fault_apply(queue->fault, FAULT_WAIT, "", 0).error;
    if (queue->failure && queue->inner)
        release_all(queue);
    if (queue->failure)
        return queue->failure;
    uint64_t end_ns =
        timeout_ms < 0 ? UINT64_MAX : clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
    unsigned needed = count_min < count_max ? count_min : count_max, count = 0;
    int status = reap_inner(queue, 0, 0);
    for (;;) {
        uint64_t next_ns = forward_due(queue);
        count += take_done(queue, done + count, count_max - count);
        uint64_t now_ns = clock_now_ns(), until_ns = bytes_min(end_ns, next_ns);
        bool is_idle = queue->inner_count == 0 && next_ns == UINT64_MAX;
        if (status || count >= needed || is_idle || now_ns >= end_ns)
            break;
        if (until_ns > now_ns)
            status = wait_until(queue, now_ns, until_ns);
    }
    if (count > 0 || !status)
        return (int)count;
    queue->failure = status;
    release_all(queue);
    return status;
}

void fault_queue_cancel(struct io_queue *queue, struct io_request *request)
{
    for (unsigned i = 0; i < queue->depth && !queue->failure; i++) {
        struct fault_entry *entry = &queue->entries[i];
        if (entry->outer != request)
            continue;
        if (entry->state == ENTRY_INNER)
            inner_ops(queue)->cancel(queue->inner, &entry->inner);
        if (entry->state == ENTRY_WAITING) {
            release_hold(queue, entry);
            finish(entry, -ECANCELED);
        }
    }
}
