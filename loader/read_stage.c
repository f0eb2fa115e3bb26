/*
 * read_stage — the reader thread, which keeps as many reads in flight as the arena and the queue
 * allow.
 *
 * It blocks if no more micro-batches may begin, the arena is full, or everything is planned; then
 * it waits for reads in flight or, without any, for memory. A read that the arena can never hold
 * (because it is larger, or a waiting consumer holds the arena) gets memory from the rest of the
 * budget. If that is too small, the run ends with an error, or, if the consumer holds batches or
 * fields there, loader_next fails until one is released.
 */
#include "loader/state.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/os/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUBMIT_MAX = 64, /* reads prepared per critical section */
    /* how often a reader blocked with reads in flight checks for memory and for the end */
    POLL_MS = 20,
};

/* ---- Reading. ---- */

/* Whether to read its pieces one by one: damage must not affect more samples because they were read
 * together. */
static bool must_split(const struct load_chunk *chunk)
{
    const struct load_piece *first = chunk->first_waiting;
    bool is_damaged = chunk->request.result == -EBADMSG;
    return chunk->request.result < 0 &&
           (chunk->is_long || (is_damaged && first && first->next_waiting));
}

/* Requires the mutex. */
static void complete_chunk(struct loader *loader, struct load_chunk *chunk, uint64_t now_ns)
{
    struct reader *reader = &loader->reader;
    uint64_t read_bytes = chunk->request.result > 0 ? (uint64_t)chunk->request.result : 0;
    trace_end_async(reader->track, "read", chunk->trace_begin_ns, "bytes", read_bytes);
    loader->stats.read_bytes += read_bytes;
    loader->stats.reads_count++;
    chunk->is_read = true;
    if (must_split(chunk))
        long_reads_split(loader, chunk);
    else
        chunk_deliver(loader, chunk, now_ns);
}

/* Ends the run at every slot that needs reads, because waiting for reads failed. Closing the
 * queue reclaims reads in flight. */
static void fail_pending_slots(struct loader *loader, int status)
{
    struct reader *reader = &loader->reader;
    struct err why = {0};
    err_errno(&why, status, "could not wait for reads");
    err_at(&why, loader->sources[0].dataset->path, ERR_NO_OFFSET);
    reader->in_flight = 0;
    reader->has_failed = true;
    pthread_mutex_lock(&loader->mutex);
    for (uint64_t i = loader->taken; i < loader->planned; i++) {
        struct load_slot *slot = loader_slot(loader, i);
        if (slot->pieces_left > 0 && !slot->is_ready)
            reader_end_run(loader, slot, &why);
    }
    pthread_mutex_unlock(&loader->mutex);
}

/* Completes reads that finished or were refused. */
static void complete_chunks(struct loader *loader, struct io_request *const *requests,
                            unsigned count)
{
    uint64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&loader->mutex);
    for (unsigned i = 0; i < count; i++)
        complete_chunk(loader, requests[i]->user, now_ns);
    bool decodes = inline_decode_is_steady(&loader->reader);
    pthread_mutex_unlock(&loader->mutex);
    if (decodes)
        inline_decode_run(loader);
}

static void reap(struct loader *loader, unsigned count_min, int timeout_ms)
{
    struct reader *reader = &loader->reader;
    uint64_t began_ns = trace_begin(reader->track);
    int count = loader->io->ops->reap(reader->queue, reader->completed_requests, LOADER_QUEUE_DEPTH,
                                      count_min, timeout_ms);
    trace_end(reader->track, "reap", began_ns);
    if (count < 0)
        fail_pending_slots(loader, count);
    if (count <= 0)
        return;
    reader->in_flight -= (uint32_t)count;
    complete_chunks(loader, reader->completed_requests, (unsigned)count);
}

/* Submits requests. Those that the engine refuses complete with its error. */
static void submit(struct loader *loader, struct io_request *const *requests, unsigned count)
{
    struct reader *reader = &loader->reader;
    unsigned done = 0;
    while (done < count) {
        uint64_t began_ns = trace_begin(reader->track);
        int taken = loader->io->ops->submit(reader->queue, requests + done, count - done);
        trace_end(reader->track, "submit", began_ns);
        if (taken > 0) {
            done += (unsigned)taken;
            reader->in_flight += (uint32_t)taken;
        } else if (taken == 0 && reader->in_flight > 0) {
            reap(loader, 1, POLL_MS);
            if (reader->has_failed)
                return;
        } else {
            for (unsigned i = done; i < count; i++)
                requests[i]->result = taken < 0 ? taken : -EBUSY;
            complete_chunks(loader, requests + done, count - done);
            return;
        }
    }
}

/* Reaps completed reads of the last submission, which requested `bytes`, to find out whether all
 * have completed. */
static void reap_inline(struct loader *loader, uint64_t bytes)
{
    struct reader *reader = &loader->reader;
    if (reader->has_failed)
        return;
    reap(loader, 0, 0);
    pthread_mutex_lock(&loader->mutex);
    inline_decode_note(reader, bytes, reader->in_flight == 0);
    pthread_mutex_unlock(&loader->mutex);
}

/* Issues chunks as far as the arena and the queue allow. True if all are issued. */
static bool issue_chunks(struct loader *loader)
{
    struct reader *reader = &loader->reader;
    struct io_request *requests[SUBMIT_MAX];
    while (reader->unissued.first && reader->in_flight < LOADER_QUEUE_DEPTH) {
        uint64_t bytes = 0, bytes_max;
        unsigned count = 0,
                 most = (unsigned)bytes_min(SUBMIT_MAX, LOADER_QUEUE_DEPTH - reader->in_flight);
        pthread_mutex_lock(&loader->mutex);
        reader->state = READER_RUNNING;
        bytes_max = inline_decode_slice_bytes(reader);
        while (count < most && bytes < bytes_max && reader->unissued.first) {
            struct load_chunk *chunk = reader->unissued.first;
            if (!chunk_alloc(&loader->memory, chunk, &reader->frees_seen)) {
                reader->state = READER_NO_SPACE;
                break;
            }
            chunk_list_take(&reader->unissued);
            chunk->trace_begin_ns = trace_begin(reader->track);
            requests[count++] = &chunk->request;
            bytes += chunk->request.bytes;
        }
        stats_update_consumer_stall(loader);
        pthread_mutex_unlock(&loader->mutex);
        if (count == 0)
            return false;
        submit(loader, requests, count);
        reap_inline(loader, bytes);
        if (reader->has_failed)
            return false;
    }
    return !reader->unissued.first;
}

/* ---- Waiting. ---- */

void reader_wake(struct reader *reader)
{
    if (reader->is_waiting)
        pthread_cond_signal(&reader->wake);
}

/* Requires the mutex. Returns the number of the micro-batch in the slot. */
static uint64_t slot_number(const struct loader *loader, const struct load_slot *slot)
{
    uint64_t last = loader->planned - 1, count = loader->slots_count;
    return last - (last + count - (uint64_t)(slot - loader->slots)) % count;
}

/* Requires the mutex and unissued chunks. Returns the first micro-batch that waits for one; retries
 * after an error may be those of earlier ones. */
static struct load_slot *first_unissued_slot(const struct loader *loader)
{
    const struct load_chunk *chunk = loader->reader.unissued.first;
    struct load_slot *first = chunk->first_waiting->slot;
    for (; chunk; chunk = chunk->next)
        if (slot_number(loader, chunk->first_waiting->slot) < slot_number(loader, first))
            first = chunk->first_waiting->slot;
    return first;
}

/* Requires the mutex, unissued chunks and no reads in flight. True if the arena can never hold the
 * next chunk. */
static bool is_stuck(struct loader *loader)
{
    if (loader->pool.work_first != loader->pool.work_next || loader->pool.decoding_count > 0)
        return false; /* workers will free memory */
    if (loader->options.decode != LOADER_BYTES)
        return true;
    if (loader->consumer.is_waiting && !loader_has_next(loader))
        return true;
    return loader->released == slot_number(loader, first_unissued_slot(loader));
}

/* Requires the mutex and unissued chunks. True if a release will free part of the arena, or of the
 * budget outside it: that of a field, or of a batch before the first that waits for a chunk. */
static bool is_memory_held(struct loader *loader)
{
    uint64_t bytes = 0; /* of batches that cannot be released */
    if (loader->options.decode == LOADER_BYTES)
        return loader->taken > loader->released;
    for (uint64_t i = slot_number(loader, first_unissued_slot(loader)); i < loader->planned; i++)
        bytes += ragged_spare_bytes(loader, loader_slot(loader, i));
    return loader->ragged.spare_bytes > bytes;
}

/* Requires the mutex. -ENOBUFS: the rest of the budget is too small. */
static int alloc_outside_arena(struct loader *loader, struct load_chunk *chunk, struct err *err)
{
    const struct load_piece *piece = chunk->first_waiting;
    const struct shard *shard = piece->slot->load_items[piece->item].shard;
    uint64_t spare_bytes;
    int status = chunk_alloc_own_memory(&loader->memory, chunk, &spare_bytes, err);
    if (status != -ENOBUFS)
        return status;
    bool is_held = is_memory_held(loader);
    err_set(err, -ENOBUFS,
            is_held ? "the batches or fields held by the consumer fill the loader's memory"
                    : "a sample or micro-batch does not fit the loader's memory");
    err_at(err, shard->path, (int64_t)chunk->request.offset);
    err_expected(err, "space for a read of %zu bytes", chunk->request.bytes);
    err_found(err, "read-ahead of %" PRIu64 " bytes in total, and %" PRIu64 " outside it",
              loader->memory.arena.capacity_bytes, spare_bytes);
    err_advise(err, is_held ? "release them earlier or give the loader more memory"
                            : "give the loader more memory or use a smaller micro-batch");
    return -ENOBUFS;
}

/* Called when nothing is in flight and nothing can be issued. Waits for memory, for a micro-batch
 * that may begin or for the end of the run, or ends the run. */
static void wait_until_unblocked(struct loader *loader)
{
    struct reader *reader = &loader->reader;
    pthread_mutex_lock(&loader->mutex);
    while (!loader->stop) {
        if (loader->ragged.freed) { /* the next chunk may need the memory */
            pthread_mutex_unlock(&loader->mutex);
            ragged_reclaim(loader);
            pthread_mutex_lock(&loader->mutex);
            continue;
        }
        struct load_chunk *chunk = reader->unissued.first;
        if (!chunk && !reader->plan_ended && reader_can_begin_slot(loader))
            break;
        if (chunk && memory_frees_count(&loader->memory) != reader->frees_seen)
            break;
        if (chunk && is_stuck(loader)) {
            struct err err;
            if (long_reads_shrink(loader, is_memory_held(loader)))
                break;
            int status = alloc_outside_arena(loader, chunk, &err);
            if (!status)
                break;
            if (status != -ENOBUFS || !is_memory_held(loader)) {
                reader_end_run(loader, first_unissued_slot(loader), &err);
                reader->unissued.first = NULL;
                continue;
            }
            /* not the end: the consumer, or another thread, may release a batch or field */
            if (loader->taken == slot_number(loader, first_unissued_slot(loader))) {
                reader->lacks_memory = true;
                reader->lacks_memory_err = err;
                pthread_cond_signal(&loader->consumer.wake);
            }
        }
        uint64_t began_ns = trace_begin(reader->track);
        reader->is_waiting = true;
        pthread_cond_wait(&reader->wake, &loader->mutex);
        reader->is_waiting = false;
        trace_end(reader->track, "wait for room", began_ns);
    }
    pthread_mutex_unlock(&loader->mutex);
}

static bool is_stopping(struct loader *loader)
{
    pthread_mutex_lock(&loader->mutex);
    bool stop = loader->stop;
    pthread_mutex_unlock(&loader->mutex);
    return stop;
}

static void *reader_main(void *argument)
{
    struct loader *loader = argument;
    struct reader *reader = &loader->reader;
    while (!is_stopping(loader) && !reader->has_failed) {
        bool is_ahead = !reader->unissued.first && !reader_begin_slot(loader);
        bool is_issued = !is_ahead && issue_chunks(loader);
        if (reader->has_failed)
            break;
        if (reader->in_flight > 0)
            reap(loader, is_issued ? 0 : 1, is_issued ? 0 : POLL_MS);
        else if (!is_issued)
            wait_until_unblocked(loader);
    }
    return NULL;
}

/* ---- Life cycle. ---- */

int reader_open(struct loader *loader, struct err *err)
{
    struct reader *reader = &loader->reader;
    const struct io_ops *ops = loader->io->ops;
    int status = ops->queue_open(loader->io, LOADER_QUEUE_DEPTH, &reader->queue, err);
    if (status)
        return status;
    if (ops->queue_register)
        ops->queue_register(reader->queue, loader->memory.arena_memory,
                            loader->memory.arena.capacity_bytes);
    bool is_single_pass = loader->options.single_pass || loader_sources_outgrow_memory(loader);
    reader->flags = IO_PADDED | (is_single_pass ? IO_NOREUSE : 0);
    reader->decodes_inline = loader->options.decode == LOADER_BYTES;
    reader->track = trace_add_track(loader->options.trace, "read", 0);
    status = thread_start(&reader->thread, reader_main, loader);
    if (status)
        return err_errno(err, status, "could not start the reading thread");
    reader->is_started = true;
    return 0;
}

void reader_close(struct loader *loader)
{
    struct reader *reader = &loader->reader;
    if (reader->queue)
        loader->io->ops->queue_close(reader->queue);
    sampler_close(reader->sampler);
    pthread_cond_destroy(&reader->wake);
}
