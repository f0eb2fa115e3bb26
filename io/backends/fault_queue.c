/*
 * fault_queue — requests of the fault-injecting backend.
 *
 *     submit -> waiting until due or released -> the inner queue -> done -> reap
 *                  `-> an error: done at once      `-> inverts a bit of what was read, or writes
 *                                                      one inverted byte after a write
 *
 * Every request has an entry with its own request for the inner queue, so the caller's request is
 * written only when it is done. The entries are allocated when the queue opens; there are as many
 * as its depth, so the inner queue always has room.
 */
#include "io/backends/fault_backend.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>

enum { INNER_REAP_MAX = 64, NS_PER_MS = 1000000 };

enum entry_state { ENTRY_FREE, ENTRY_WAITING, ENTRY_INNER, ENTRY_DONE };

struct entry {
    struct io_request inner;
    struct io_request *outer;
    struct fault_verdict verdict;
    enum entry_state state;
    uint64_t due_ns;
    bool is_flip; /* the second write, of one byte */
    uint8_t flipped;
    struct entry *next;
};

struct entry_list {
    struct entry *first, *last;
};

/* Owner thread. */
struct fault_queue {
    struct io_fault *fault;
    struct io_queue *inner;
    int broken; /* what reap always returns from now on; 0: working */
    unsigned depth, inner_count;
    struct entry_list free, waiting, done;
    struct entry entries[];
};

static void append(struct entry_list *list, struct entry *entry)
{
    entry->next = NULL;
    if (list->last)
        list->last->next = entry;
    else
        list->first = entry;
    list->last = entry;
}

/* Removes the entry after before; NULL: the first. */
static struct entry *take_after(struct entry_list *list, struct entry *before)
{
    struct entry *entry = before ? before->next : list->first;
    if (before)
        before->next = entry->next;
    else
        list->first = entry->next;
    if (list->last == entry)
        list->last = before;
    return entry;
}

static struct io *inner_io(const struct fault_queue *queue)
{
    return queue->fault->inner;
}

static void append_waiting(struct fault_queue *queue, struct entry *entry)
{
    entry->state = ENTRY_WAITING;
    append(&queue->waiting, entry);
}

static void finish(struct fault_queue *queue, struct entry *entry, ssize_t result)
{
    entry->outer->result = result;
    entry->state = ENTRY_DONE;
    append(&queue->done, entry);
}

/* ---- A request's stages. ---- */

static void begin(struct fault_queue *queue, struct io_request *request)
{
    struct entry *entry = take_after(&queue->free, NULL);
    enum fault_operation operation = request->kind == IO_READ ? FAULT_READ : FAULT_WRITE;
    struct fault_verdict verdict =
        fault_apply(queue->fault, operation, request->file->path, request->offset);
    *entry = (struct entry){.inner = {.kind = request->kind,
                                      .file = request->file->inner,
                                      .offset = request->offset,
                                      .data = request->data,
                                      .bytes = request->bytes,
                                      .flags = request->flags,
                                      .user = entry},
                            .outer = request,
                            .verdict = verdict,
                            .due_ns = verdict.delay_ns ? clock_now_ns() + verdict.delay_ns : 0};
    if (verdict.cuts && request->bytes > 0)
        entry->inner.bytes = verdict.cut_random % request->bytes;
    if (operation == FAULT_READ)
        atomic_fetch_add(&queue->fault->read_bytes, request->bytes);
    atomic_fetch_add(&queue->fault->held, verdict.holds);
    append_waiting(queue, entry);
}

/* Writes the inverted byte to the file with a second write, so that the caller's memory is not
 * modified. */
static void flip_written(struct fault_queue *queue, struct entry *entry)
{
    uint64_t bit = entry->verdict.flip_random % ((uint64_t)entry->inner.bytes * 8);
    const uint8_t *data = entry->inner.data;
    entry->flipped = data[bit / 8] ^ (uint8_t)(1u << bit % 8);
    entry->inner.offset += bit / 8;
    entry->inner.data = &entry->flipped;
    entry->inner.bytes = 1;
    entry->inner.flags = 0;
    entry->is_flip = true;
    entry->due_ns = 0;
    append_waiting(queue, entry);
}

/* The inner queue has finished the entry's request. */
static void complete(struct fault_queue *queue, struct entry *entry)
{
    const struct fault_verdict *verdict = &entry->verdict;
    ssize_t result = entry->inner.result;
    if (result > 0 && verdict->flips && !entry->is_flip) {
        if (entry->inner.kind == IO_WRITE) {
            flip_written(queue, entry);
            return;
        }
        uint64_t bit = verdict->flip_random % ((uint64_t)result * 8);
        ((uint8_t *)entry->inner.data)[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    if (result >= 0 && entry->inner.kind == IO_WRITE)
        result = verdict->cuts ? -ENOSPC : (ssize_t)entry->outer->bytes;
    finish(queue, entry, result);
}

/* Passes the entry after before to the inner queue, or fails it. False: the inner queue is full. */
static bool forward_entry(struct fault_queue *queue, struct entry *before)
{
    struct entry *entry = before ? before->next : queue->waiting.first;
    struct io_request *request = &entry->inner;
    int taken = entry->verdict.error;
    if (taken == 0)
        taken = inner_io(queue)->ops->submit(queue->inner, &request, 1);
    if (taken == 0)
        return false;
    take_after(&queue->waiting, before);
    if (entry->verdict.holds && !entry->is_flip)
        atomic_fetch_sub(&queue->fault->held, 1);
    if (taken < 0) {
        finish(queue, entry, taken);
        return true;
    }
    entry->state = ENTRY_INNER;
    queue->inner_count++;
    return true;
}

static bool is_held(const struct fault_queue *queue, const struct entry *entry)
{
    return entry->verdict.holds && !entry->is_flip && !atomic_load(&queue->fault->is_released);
}

/* Starts all entries that are due. Returns when to look again; UINT64_MAX: only the inner queue has
 * work. */
static uint64_t push_due(struct fault_queue *queue)
{
    uint64_t now_ns = clock_now_ns(), next_ns = UINT64_MAX;
    struct entry *before = NULL;
    while (before ? before->next : queue->waiting.first) {
        struct entry *entry = before ? before->next : queue->waiting.first;
        bool holds = is_held(queue, entry);
        if (!holds && entry->due_ns <= now_ns) {
            if (!forward_entry(queue, before))
                break;
            continue;
        }
        next_ns = bytes_min(next_ns, holds ? now_ns + FAULT_POLL_NS : entry->due_ns);
        before = entry;
    }
    return next_ns;
}

/* ---- Hooks of struct io_ops. ---- */

int fault_queue_open(struct io *io, unsigned depth, struct io_queue **ret_queue, struct err *err)
{
    struct io_fault *fault = (struct io_fault *)io;
    struct io_queue *inner;
    struct fault_verdict verdict = fault_apply(fault, FAULT_QUEUE, "", 0);
    if (verdict.error)
        return err_errno(err, verdict.error, "an I/O queue was made to fail");
    int status = fault->inner->ops->queue_open(fault->inner, depth, &inner, err);
    if (status)
        return status;
    struct fault_queue *queue = calloc(1, sizeof *queue + depth * sizeof queue->entries[0]);
    if (!queue) {
        fault->inner->ops->queue_close(inner);
        return err_set(err, -ENOMEM, "out of memory for an I/O queue");
    }
    queue->fault = fault;
    queue->inner = inner;
    queue->depth = depth;
    for (unsigned i = 0; i < depth; i++)
        append(&queue->free, &queue->entries[i]);
    *ret_queue = (struct io_queue *)queue;
    return 0;
}

/* Returns all requests in flight to their callers: done or cancelled. */
static void release_all(struct fault_queue *queue)
{
    inner_io(queue)->ops->queue_close(queue->inner);
    queue->inner = NULL;
    for (unsigned i = 0; i < queue->depth; i++) {
        struct entry *entry = &queue->entries[i];
        if (entry->state == ENTRY_FREE)
            continue;
        if (entry->state == ENTRY_WAITING && entry->verdict.holds && !entry->is_flip)
            atomic_fetch_sub(&queue->fault->held, 1);
        if (entry->state != ENTRY_DONE)
            entry->outer->result = entry->state == ENTRY_INNER ? entry->inner.result : -ECANCELED;
        entry->state = ENTRY_FREE;
        atomic_fetch_sub(&queue->fault->in_flight, 1);
    }
}

void fault_queue_close(struct io_queue *base)
{
    struct fault_queue *queue = (struct fault_queue *)base;
    if (!queue)
        return;
    if (queue->inner)
        release_all(queue);
    free(queue);
}

void fault_queue_register(struct io_queue *base, void *memory, size_t bytes)
{
    struct fault_queue *queue = (struct fault_queue *)base;
    if (inner_io(queue)->ops->queue_register)
        inner_io(queue)->ops->queue_register(queue->inner, memory, bytes);
}

int fault_queue_submit(struct io_queue *base, struct io_request *const *requests, unsigned count)
{
    struct fault_queue *queue = (struct fault_queue *)base;
    unsigned taken = 0;
    if (queue->broken)
        return queue->broken;
    for (; taken < count && queue->free.first; taken++)
        begin(queue, requests[taken]);
    atomic_fetch_add(&queue->fault->in_flight, taken);
    push_due(queue);
    return (int)taken;
}

/* Waits up to timeout_ms for the inner queue. */
static int reap_inner(struct fault_queue *queue, unsigned least, int timeout_ms)
{
    struct io_request *done[INNER_REAP_MAX];
    if (queue->inner_count == 0)
        return 0;
    int count = inner_io(queue)->ops->reap(queue->inner, done, INNER_REAP_MAX, least, timeout_ms);
    for (int i = 0; i < count; i++) {
        queue->inner_count--;
        complete(queue, done[i]->user);
    }
    return count < 0 ? count : 0;
}

static unsigned take_done(struct fault_queue *queue, struct io_request **done, unsigned count_max)
{
    unsigned count = 0;
    while (count < count_max && queue->done.first) {
        struct entry *entry = take_after(&queue->done, NULL);
        done[count++] = entry->outer;
        entry->state = ENTRY_FREE;
        append(&queue->free, entry);
    }
    atomic_fetch_sub(&queue->fault->in_flight, count);
    return count;
}

/* Waits for the inner queue, but not past until_ns. */
static int wait_a_while(struct fault_queue *queue, uint64_t now_ns, uint64_t until_ns)
{
    uint64_t wait_ns = until_ns - now_ns;
    if (queue->inner_count > 0) {
        bool is_long = until_ns == UINT64_MAX || wait_ns / NS_PER_MS >= INT_MAX;
        return reap_inner(queue, 1, is_long ? IO_FOREVER : (int)(wait_ns / NS_PER_MS) + 1);
    }
    nanosleep(&(struct timespec){.tv_sec = (time_t)(wait_ns / CLOCK_NS_PER_S),
                                 .tv_nsec = (long)(wait_ns % CLOCK_NS_PER_S)},
              NULL);
    return 0;
}

int fault_queue_reap(struct io_queue *base, struct io_request **done, unsigned count_max,
                     unsigned least, int timeout_ms)
{
    struct fault_queue *queue = (struct fault_queue *)base;
    if (!queue->broken)
        queue->broken = fault_apply(queue->fault, FAULT_WAIT, "", 0).error;
    if (queue->broken && queue->inner)
        release_all(queue);
    if (queue->broken)
        return queue->broken;
    uint64_t end_ns =
        timeout_ms < 0 ? UINT64_MAX : clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
    unsigned wanted = least < count_max ? least : count_max, count = 0;
    int status = reap_inner(queue, 0, 0);
    for (;;) {
        uint64_t next_ns = push_due(queue);
        count += take_done(queue, done + count, count_max - count);
        uint64_t now_ns = clock_now_ns();
        bool is_idle = queue->inner_count == 0 && !queue->waiting.first;
        if (status || count >= wanted || is_idle || now_ns >= end_ns)
            break;
        uint64_t until_ns = bytes_min(end_ns, next_ns);
        if (until_ns > now_ns)
            status = wait_a_while(queue, now_ns, until_ns);
    }
    if (count > 0 || !status)
        return (int)count;
    queue->broken = status; /* the inner queue's own */
    release_all(queue);
    return status;
}

void fault_queue_cancel(struct io_queue *base, struct io_request *request)
{
    struct fault_queue *queue = (struct fault_queue *)base;
    struct entry *before = NULL;
    if (queue->broken)
        return;
    for (struct entry *entry = queue->waiting.first; entry; before = entry, entry = entry->next) {
        if (entry->outer != request || entry->is_flip)
            continue;
        take_after(&queue->waiting, before);
        if (entry->verdict.holds)
            atomic_fetch_sub(&queue->fault->held, 1);
        finish(queue, entry, -ECANCELED);
        return;
    }
    for (unsigned i = 0; i < queue->depth; i++) {
        struct entry *entry = &queue->entries[i];
        if (entry->state == ENTRY_INNER && entry->outer == request)
            inner_io(queue)->ops->cancel(queue->inner, &entry->inner);
    }
}
