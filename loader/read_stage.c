/*
 * read_stage — the reader thread: plans ahead, turns micro-batches into byte ranges, merges
 * neighboring ones, and keeps as many reads in flight as arena and queue allow.
 *
 * It blocks for three reasons: no more micro-batches may be begun, the arena is full, or everything
 * is planned. While blocked it waits for reads in flight, or else for memory. If the arena can
 * never hold a read (a sample or micro-batch larger than the arena, or a consumer that waits while
 * it holds everything), the read gets its own memory from the rest of the budget. If the rest is
 * too small, the run ends with an error.
 */
#include "loader/state.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUBMIT_MAX = 64, /* reads prepared per lock */
    /* with reads in flight, how often a blocked reader checks for free memory and the end */
    POLL_MS = 20,
};

/* Needs mutex: the run ends at this slot. */
static void end_run(struct loader *loader, struct load_slot *slot, const struct err *why)
{
    slot_fail(slot, 0, why);
    loader->plan_ended = true;
    slot_set_ready(loader, slot);
}

/* ---- How far ahead. ---- */

/* Needs mutex: nothing is read ahead, and the consumer releases nothing while it waits. */
static bool is_only_progress(const struct loader *loader)
{
    return loader->taken == loader->planned &&
           (loader->consumer_waits || loader->released == loader->planned);
}

/* Needs mutex: the share of the process's files. Reading beyond the very next micro-batch leaves
 * half of the files to others; the next one itself leaves only some. */
static enum open_files_share share_of(const struct loader *loader)
{
    return loader->taken == loader->planned ? OPEN_FILES_MOST : OPEN_FILES_HALF;
}

/* Needs mutex: the next micro-batch found too few files, and still would. */
static bool lacks_files(const struct loader *loader)
{
    return loader->released_short == loader->released && share_of(loader) <= loader->share_short &&
           !is_only_progress(loader);
}

/* Needs mutex: a slot is free, the limit is not reached, and enough files are left. */
static bool may_begin(const struct loader *loader)
{
    return loader->planned - loader->released < loader->slots_count && !lacks_files(loader) &&
           loader->planned - loader->taken <
               (inline_decode_is_steady(loader) ? loader->ahead_inline : loader->ahead_max);
}

void read_stage_note_slots(struct loader *loader)
{
    if (loader->reader_block != LOAD_NO_SLOT || !may_begin(loader))
        return;
    loader->reader_block = LOAD_RUNNING;
    stats_update_full(loader);
    read_stage_wake(loader);
}

void read_stage_note_idle(struct loader *loader)
{
    if (loader->reader_block == LOAD_NO_SLOT && !inline_decode_is_steady(loader) &&
        !lacks_files(loader) && loader->planned - loader->released < loader->slots_count)
        loader->is_starved = true;
}

/* ---- Planning. ---- */

/* Needs mutex: queues items that need no reading. */
static void add_complete_items(struct loader *loader, struct load_slot *slot)
{
    if (slot->chunks_left == 0)
        slot->read_done_ns = clock_now_ns();
    for (uint32_t i = 0; i < slot->batch.items_count; i++)
        if (slot->loads[i].pending == 0)
            decode_stage_add(loader, slot, i);
    if (slot->batch.items_count > 0)
        return;
    slot_acquire_memory(loader, slot);
    slot_set_ready(loader, slot);
}

/* The state before a micro-batch, restored if it lacks files. */
struct attempt {
    struct plan plan;
    uint64_t released;
    enum open_files_share share;
};

/* A micro-batch that lacks files waits until an earlier one is released or its share grows. False:
 * neither can happen. */
static bool defer_slot(struct loader *loader, struct load_slot *slot, const struct attempt *before)
{
    pthread_mutex_lock(&loader->mutex);
    bool can_have_more = loader->released != before->released || share_of(loader) > before->share;
    bool waits = can_have_more || !is_only_progress(loader);
    if (waits) {
        loader->released_short = before->released;
        loader->share_short = before->share;
        loader->reader_block = may_begin(loader) ? LOAD_RUNNING : LOAD_NO_SLOT;
        stats_update_full(loader);
    }
    pthread_mutex_unlock(&loader->mutex);
    if (!waits)
        return false;
    slot_clear(loader, slot);
    loader->plan = before->plan;
    return true;
}

/* Begins the next micro-batch. NULL: no slot is free, everything is planned, or beginning it failed
 * and the run ends. */
static struct load_slot *begin_slot(struct loader *loader)
{
    pthread_mutex_lock(&loader->mutex);
    loader->reader_block = loader->plan_ended  ? LOAD_DONE
                           : may_begin(loader) ? LOAD_RUNNING
                                               : LOAD_NO_SLOT;
    enum load_block block = loader->reader_block;
    if (loader->idle)
        read_stage_note_idle(loader);
    stats_update_full(loader);
    const struct attempt before = {
        .plan = loader->plan, .released = loader->released, .share = share_of(loader)};
    uint64_t merge_gap_bytes = inline_decode_gap_bytes(loader);
    pthread_mutex_unlock(&loader->mutex);
    if (block != LOAD_RUNNING)
        return NULL;
    struct plan_micro micro;
    if (!plan_next(&loader->plan, &micro)) {
        pthread_mutex_lock(&loader->mutex);
        loader->plan_ended = true;
        loader->reader_block = LOAD_DONE;
        if (loader->consumer_waits)
            pthread_cond_signal(&loader->consumer_wake);
        pthread_mutex_unlock(&loader->mutex);
        return NULL;
    }
    struct load_slot *slot = loader_slot(loader, loader->planned);
    uint64_t first, stride;
    uint32_t items = plan_items(&loader->plan, &micro, &first, &stride);
    slot_begin(slot, &micro, items);
    slot->merge_gap_bytes = merge_gap_bytes;
    struct err err;
    uint64_t began_ns = trace_begin(loader->reader_track);
    int status = read_plan_slot(loader, slot, first, stride, before.share, &err);
    trace_end_with(loader->reader_track, "plan", began_ns, "items", items);
    if (shard_cache_is_short_of_files(status) && defer_slot(loader, slot, &before))
        return NULL;
    pthread_mutex_lock(&loader->mutex);
    loader->planned++;
    if (status)
        end_run(loader, slot, &err);
    else
        add_complete_items(loader, slot);
    pthread_mutex_unlock(&loader->mutex);
    return status ? NULL : slot;
}

/* ---- Reading. ---- */

/* Needs mutex. If the file ends early, the sample is bad; a read error ends the run at it. */
static void note_short_read(struct load_slot *slot, const struct load_piece *piece, ssize_t result)
{
    struct load_item *load = &slot->loads[piece->item];
    struct err why = {0};
    if (load->is_bad || load->has_failed)
        return;
    if (result < 0)
        err_errno(&why, (int)result, "could not read the shard");
    else
        err_set(&why, -ENODATA, "the shard ends too early");
    err_at(&why, load->shard->path, (int64_t)piece->view.read_offset);
    if (result >= 0) {
        slot_note_bad(slot, piece->item, &why);
        return;
    }
    err_advise(
        &why,
        "check the disk or the network, then resume; no sample was replaced because of this error");
    load->has_failed = true;
    slot_fail(slot, piece->item, &why);
}

/* Needs mutex. */
static void complete_chunk(struct loader *loader, struct load_chunk *chunk, uint64_t now_ns)
{
    struct load_slot *slot = chunk->slot;
    uint64_t got = chunk->request.result > 0 ? (uint64_t)chunk->request.result : 0;
    trace_end_async(loader->reader_track, "read", chunk->traced_ns, "bytes", got);
    loader->stats.read_bytes += got;
    loader->stats.reads_count++;
    for (uint32_t i = chunk->first_piece; i < chunk->first_piece + chunk->pieces_count; i++) {
        struct load_piece *piece = &slot->pieces[slot->sorted[i].piece];
        uint64_t begin = piece->view.read_offset - chunk->request.offset;
        piece->view.data = (const uint8_t *)chunk->request.data + begin;
        loader->stats.wanted_bytes += piece->view.want_bytes;
        if (begin + piece->view.read_bytes > got)
            note_short_read(slot, piece, chunk->request.result);
        if (--slot->loads[piece->item].pending > 0)
            continue;
        if (inline_decode_is_steady(loader))
            decode_stage_put(loader, slot, piece->item);
        else
            decode_stage_add(loader, slot, piece->item);
    }
    chunk->is_read = true;
    if (--slot->chunks_left == 0)
        slot->read_done_ns = now_ns;
}

/* Waiting for reads failed: the run ends at every slot that needs one. Reads in flight are
 * reclaimed when the queue closes. */
static void end_reading(struct loader *loader, int status)
{
    struct err why = {0};
    err_errno(&why, status, "could not wait for reads");
    err_at(&why, loader->sources[0].dataset->path, ERR_NO_OFFSET);
    loader->in_flight = 0;
    loader->reading_failed = true;
    pthread_mutex_lock(&loader->mutex);
    for (uint64_t i = loader->taken; i < loader->planned; i++) {
        struct load_slot *slot = loader_slot(loader, i);
        if (slot->chunks_left > 0 && !slot->is_ready)
            end_run(loader, slot, &why);
    }
    pthread_mutex_unlock(&loader->mutex);
}

/* Completes reads that are done or were refused. */
static void complete_chunks(struct loader *loader, struct io_request *const *requests,
                            unsigned count)
{
    uint64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&loader->mutex);
    for (unsigned i = 0; i < count; i++)
        complete_chunk(loader, requests[i]->user, now_ns);
    bool decodes = inline_decode_is_steady(loader);
    pthread_mutex_unlock(&loader->mutex);
    if (decodes)
        inline_decode_run(loader);
}

static void reap(struct loader *loader, unsigned least, int timeout_ms)
{
    uint64_t began_ns = trace_begin(loader->reader_track);
    int count =
        loader->io->ops->reap(loader->queue, loader->reaped, LOADER_QUEUE_DEPTH, least, timeout_ms);
    trace_end(loader->reader_track, "reap", began_ns);
    if (count < 0)
        end_reading(loader, count);
    if (count <= 0)
        return;
    loader->in_flight -= (uint32_t)count;
    complete_chunks(loader, loader->reaped, (unsigned)count);
}

/* Submits the requests; those that the engine refuses complete with its error. */
static void submit(struct loader *loader, struct io_request *const *requests, unsigned count)
{
    unsigned done = 0;
    while (done < count) {
        uint64_t began_ns = trace_begin(loader->reader_track);
        int taken = loader->io->ops->submit(loader->queue, requests + done, count - done);
        trace_end(loader->reader_track, "submit", began_ns);
        if (taken > 0) {
            done += (unsigned)taken;
            loader->in_flight += (uint32_t)taken;
        } else if (taken == 0 && loader->in_flight > 0) {
            reap(loader, 1, POLL_MS);
            if (loader->reading_failed)
                return;
        } else {
            for (unsigned i = done; i < count; i++)
                requests[i]->result = taken < 0 ? taken : -EBUSY;
            complete_chunks(loader, requests + done, count - done);
            return;
        }
    }
}

/* Reaps those of the reads just submitted, `bytes` in total, that are already complete. */
static void reap_inline(struct loader *loader, uint64_t bytes)
{
    if (loader->options.decode != LOADER_BYTES || loader->reading_failed)
        return;
    reap(loader, 0, 0);
    pthread_mutex_lock(&loader->mutex);
    inline_decode_note(loader, bytes, loader->in_flight == 0);
    pthread_mutex_unlock(&loader->mutex);
}

/* Issues the slot's chunks as far as arena and queue allow; true if all are issued. */
static bool issue_chunks(struct loader *loader, struct load_slot *slot)
{
    struct io_request *requests[SUBMIT_MAX];
    while (slot->chunks_issued < slot->chunks_count && loader->in_flight < LOADER_QUEUE_DEPTH) {
        uint64_t bytes = 0, bytes_max;
        unsigned count = 0,
                 most = (unsigned)bytes_min(SUBMIT_MAX, LOADER_QUEUE_DEPTH - loader->in_flight);
        pthread_mutex_lock(&loader->mutex);
        loader->reader_block = LOAD_RUNNING;
        bytes_max = inline_decode_slice_bytes(loader);
        while (count < most && bytes < bytes_max && slot->chunks_issued < slot->chunks_count) {
            struct load_chunk *chunk = &slot->chunks[slot->chunks_issued];
            struct io_request *request = &chunk->request;
            if (!chunk->own_memory)
                request->data = read_arena_alloc(&loader->arena, request->bytes, request->offset);
            if (!request->data) {
                loader->reader_block = LOAD_NO_SPACE;
                loader->frees_seen = loader->arena.frees_count;
                break;
            }
            chunk->traced_ns = trace_begin(loader->reader_track);
            requests[count++] = request;
            bytes += request->bytes;
            slot->chunks_issued++;
        }
        stats_update_full(loader);
        pthread_mutex_unlock(&loader->mutex);
        if (count == 0)
            return false;
        submit(loader, requests, count);
        reap_inline(loader, bytes);
        if (loader->reading_failed)
            return false;
    }
    return slot->chunks_issued == slot->chunks_count;
}

/* ---- Waiting. ---- */

void read_stage_wake(struct loader *loader)
{
    if (loader->reader_waits)
        pthread_cond_signal(&loader->reader_wake);
}

/* Needs mutex and no reads in flight: true if the arena can never hold the slot's next chunk. */
static bool is_stuck(const struct loader *loader)
{
    if (loader->work_first != loader->work_next || loader->decoding > 0)
        return false; /* workers will free memory */
    if (loader->options.decode != LOADER_BYTES)
        return true;
    uint64_t current = loader->planned - 1;
    return loader->released == current || (loader->consumer_waits && loader->taken == current);
}

/* Needs mutex and a stuck slot. False: the run ends here. */
static bool alloc_outside_arena(struct loader *loader, struct load_slot *slot, struct err *err)
{
    struct load_chunk *chunk = &slot->chunks[slot->chunks_issued];
    const struct load_piece *piece = &slot->pieces[slot->sorted[chunk->first_piece].piece];
    int status = chunk_alloc_own_memory(loader, chunk, err);
    if (status != -ENOBUFS)
        return !status;
    bool is_held = loader->options.decode == LOADER_BYTES && loader->taken > loader->released;
    err_set(err, -ENOBUFS,
            is_held ? "the batches held by the consumer fill the loader's memory"
                    : "a sample or micro-batch does not fit the loader's memory");
    err_at(err, slot->loads[piece->item].shard->path, (int64_t)chunk->request.offset);
    err_expected(err, "space for a read of %zu bytes", chunk->request.bytes);
    err_found(err, "read-ahead of %" PRIu64 " bytes in total, and %" PRIu64 " outside it",
              loader->arena.capacity_bytes, loader->spare_bytes);
    err_advise(err, is_held ? "release batches earlier or give the loader more memory"
                            : "give the loader more memory or use a smaller micro-batch");
    return false;
}

/* With nothing in flight and nothing to issue: waits for memory or the end, or ends the run.
 * Returns the slot to continue with. */
static struct load_slot *wait_for_room(struct loader *loader, struct load_slot *slot)
{
    pthread_mutex_lock(&loader->mutex);
    while (!loader->stop) {
        if (!slot && !loader->plan_ended && may_begin(loader))
            break;
        if (slot && loader->arena.frees_count != loader->frees_seen)
            break;
        if (slot && is_stuck(loader)) {
            struct err err;
            if (alloc_outside_arena(loader, slot, &err))
                break;
            end_run(loader, slot, &err);
            slot = NULL;
            continue;
        }
        uint64_t began_ns = trace_begin(loader->reader_track);
        loader->reader_waits = true;
        pthread_cond_wait(&loader->reader_wake, &loader->mutex);
        loader->reader_waits = false;
        trace_end(loader->reader_track, "wait for room", began_ns);
    }
    pthread_mutex_unlock(&loader->mutex);
    return slot;
}

static bool must_stop(struct loader *loader)
{
    pthread_mutex_lock(&loader->mutex);
    bool stop = loader->stop;
    pthread_mutex_unlock(&loader->mutex);
    return stop;
}

void *read_stage_main(void *argument)
{
    struct loader *loader = argument;
    struct load_slot *slot = NULL;
    while (!must_stop(loader) && !loader->reading_failed) {
        if (!slot)
            slot = begin_slot(loader);
        bool issued = slot && issue_chunks(loader, slot);
        if (issued)
            slot = NULL;
        if (loader->reading_failed)
            break;
        if (loader->in_flight > 0)
            reap(loader, issued ? 0 : 1, issued ? 0 : POLL_MS);
        else if (!issued)
            slot = wait_for_room(loader, slot);
    }
    return NULL;
}
