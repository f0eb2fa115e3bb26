/*
 * wait — the consumer waits for its next micro-batch and logs the cause of a long wait.
 *
 * The reported cause is the first of these that applies: a shard's index is being read, a read is
 * incomplete, or samples are not yet decoded.
 */
#include "loader/state.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <time.h>

enum { REPORT_DEFAULT_S = 30, STOP_POLL_MS = 50 };

bool loader_has_next(struct loader *loader)
{
    return loader->taken < loader->planned ? loader_slot(loader, loader->taken)->is_ready
                                           : loader->reader.plan_ended;
}

/* Requires the mutex and a slot with pieces to be read. Returns the first read that it waits for,
 * and the shard. */
static const struct load_chunk *first_unread_chunk(const struct loader *loader,
                                                   const struct load_slot *slot,
                                                   const struct shard **ret_shard)
{
    uint32_t i = 0, k = 0;
    while (slot->load_items[i].pieces_left == 0)
        i++;
    const struct load_piece *pieces = loader_pieces(loader, slot, i);
    while (!pieces[k].chunk || pieces[k].chunk->is_read)
        k++;
    *ret_shard = slot->load_items[i].shard;
    return pieces[k].chunk;
}

/* Requires the mutex and a slot with pieces to be read. */
static void describe_read(const struct loader *loader, const struct load_slot *slot,
                          struct err *err)
{
    const struct shard *shard;
    const struct load_chunk *chunk = first_unread_chunk(loader, slot, &shard);
    err_set(err, -ETIMEDOUT, "waiting for %s of %zu bytes",
            chunk->request.data ? "a read" : "space for a read", chunk->request.bytes);
    err_at(err, shard->path, (int64_t)chunk->request.offset);
}

/* Requires the mutex. Reports a shard being opened first, because that blocks its thread, unless
 * the batch has all its bytes. */
static void describe_wait(struct loader *loader, struct err *err)
{
    const struct load_slot *slot = loader_slot(loader, loader->taken);
    char path[IO_PATH_BYTES_MAX];
    uint64_t opening;
    bool is_planned = loader->taken < loader->planned;
    if (is_planned && slot->pieces_left == 0 && atomic_load(&slot->shards_awaited) == 0) {
        err_set(err, -ETIMEDOUT, "waiting for %" PRIu32 " samples to be decoded", slot->items_left);
    } else if (shard_cache_is_opening(loader->cache, &opening) &&
               shard_cache_path(loader->cache, opening, path, NULL) == 0) {
        err_set(err, -ETIMEDOUT, "waiting for the index of a shard");
        err_at(err, path, ERR_NO_OFFSET);
    } else if (!is_planned) {
        err_set(err, -ETIMEDOUT, "waiting for the reader to plan it");
    } else if (slot->pieces_left > 0) {
        describe_read(loader, slot, err);
    } else {
        err_set(err, -ETIMEDOUT, "waiting for the shard of a substitute for a bad sample");
    }
}

/* Requires the mutex. Unlocks it while logging, because the log sink may call the loader. */
static void report_wait(struct loader *loader, uint64_t waited_ns, const struct err *why)
{
    pthread_mutex_unlock(&loader->mutex);
    log_err(loader->options.log, LOG_WARN, why, "no micro-batch for %.3g s",
            clock_seconds(waited_ns));
    pthread_mutex_lock(&loader->mutex);
}

/* Saturates at UINT64_MAX. */
static uint64_t add_ns(uint64_t begin_ns, uint64_t ns)
{
    return ns < UINT64_MAX - begin_ns ? begin_ns + ns : UINT64_MAX;
}

static void sleep_until(struct loader *loader, uint64_t at_ns)
{
    struct timespec at = clock_timespec(at_ns);
    pthread_cond_timedwait(&loader->consumer.wake, &loader->mutex, &at);
}

/* Requires the mutex. True if all that the next micro-batch waits for is memory of fields that the
 * caller keeps. */
static bool lacks_fields_memory(const struct loader *loader)
{
    return loader->taken == loader->planned && !batch_memories_are_available(loader) &&
           !reader_may_grow(loader);
}

static int fields_kept_error(const struct loader *loader, struct err *err)
{
    err_set(err, -ENOBUFS, "the fields kept by the caller fill the loader's memory");
    err_expected(err, "those of at most %" PRIu32 " batches", loader->slots_count - 1);
    err_advise(err, "release fields before requesting the next batch, give the loader more memory, "
                    "or let it grow (options.keep)");
    return -ENOBUFS;
}

static bool stop_requested(const struct loader_options *options)
{
    return options->wants_stop && options->wants_stop(options->stop_context);
}

/* Requires the mutex. Waits for a micro-batch and logs each long wait. -ETIMEDOUT, -EINTR, or
 * -ENOBUFS if the caller's batches hold the memory of the next one. */
static int wait_with_reports(struct loader *loader, struct err *err)
{
    const struct loader_options *options = &loader->options;
    struct consumer *consumer = &loader->consumer;
    uint64_t every_ns =
        options->stall_report_ns ? options->stall_report_ns : REPORT_DEFAULT_S * CLOCK_NS_PER_S;
    if (consumer->wait_begin_ns == 0) {
        consumer->wait_begin_ns = clock_now_ns();
        consumer->wait_report_ns = add_ns(consumer->wait_begin_ns, every_ns);
    }
    const uint64_t begin_ns = consumer->wait_begin_ns;
    uint64_t end_ns = options->timeout_ns ? add_ns(begin_ns, options->timeout_ns) : UINT64_MAX;
    while (!loader_has_next(loader)) {
        uint64_t now_ns = clock_now_ns();
        if (stop_requested(options))
            return err_set(err, -EINTR, "stopped on request");
        if (loader->reader.lacks_memory) {
            *err = loader->reader.lacks_memory_err;
            return -ENOBUFS;
        }
        if (lacks_fields_memory(loader))
            return fields_kept_error(loader, err);
        if (now_ns < consumer->wait_report_ns && now_ns < end_ns) {
            uint64_t poll_ns = options->wants_stop
                                   ? add_ns(now_ns, STOP_POLL_MS * (CLOCK_NS_PER_S / 1000))
                                   : UINT64_MAX;
            sleep_until(loader, bytes_min(poll_ns, bytes_min(consumer->wait_report_ns, end_ns)));
            continue;
        }
        struct err why = {0};
        describe_wait(loader, &why);
        /* also on timeout: closing may have to wait for the same read */
        report_wait(loader, now_ns - begin_ns, &why);
        consumer->wait_report_ns = add_ns(now_ns, every_ns);
        if (now_ns < end_ns || loader_has_next(loader))
            continue;
        *err = why;
        err_set(err, -ETIMEDOUT, "no micro-batch within %.3g s: %s",
                clock_seconds(options->timeout_ns), why.what);
        err_at(err, why.path, why.offset);
        err_advise(err, "check the disk or the network, then resume, or raise the timeout");
        return -ETIMEDOUT;
    }
    return 0;
}

void loader_note_underrun(struct loader *loader)
{
    struct consumer *consumer = &loader->consumer;
    struct reader *reader = &loader->reader;
    if (consumer->last_underrun == loader->taken + 1)
        return;
    consumer->last_underrun = loader->taken + 1;
    if (loader->taken > 0 && reader->has_idled_worker && reader->ahead_max < loader->slots_count) {
        reader->ahead_max =
            (uint32_t)bytes_min(2 * (uint64_t)reader->ahead_max, loader->slots_count);
        reader_unblock(loader);
    }
    reader->has_idled_worker = false;
}

int loader_wait(struct loader *loader, struct err *err)
{
    struct consumer *consumer = &loader->consumer;
    uint64_t begin_ns = clock_now_ns();
    loader_note_underrun(loader);
    consumer->is_waiting = true;
    stats_update_consumer_stall(loader);
    reader_unblock(loader);       /* a lack of files no longer blocks the reader */
    reader_wake(&loader->reader); /* the reader may only now detect that it is stuck */
    int status = wait_with_reports(loader, err);
    consumer->is_waiting = false;
    stats_update_consumer_stall(
        loader); /* the loader may have been full before this batch was ready */
    bool is_planned = loader->taken < loader->planned;
    stats_add_wait(loader, is_planned ? loader_slot(loader, loader->taken) : NULL, begin_ns,
                   clock_now_ns());
    return status;
}
