/*
 * decode_stage — the workers: verify the bytes read and decode them into the batch.
 *
 * They take items, not micro-batches, oldest first, so that all of them work on the batch that the
 * consumer waits for. Each item has its own destination, so the result does not depend on the
 * worker. The worker that finishes the last item of a micro-batch mixes its images, if requested.
 */
#include "loader/state.h"

#include "base/bytes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void decode_stage_put(struct loader *loader, struct load_slot *slot, uint32_t item)
{
    loader->work[loader->work_next++ % loader->work_capacity] =
        (struct load_work){.slot = slot, .item = item};
}

void decode_stage_add(struct loader *loader, struct load_slot *slot, uint32_t item)
{
    decode_stage_put(loader, slot, item);
    struct load_worker *worker = loader->idle;
    if (!worker)
        return;
    loader->idle = worker->next_idle;
    worker->is_asleep = false;
    pthread_cond_signal(&worker->wake);
}

static void sleep_until_woken(struct load_worker *worker)
{
    struct loader *loader = worker->loader;
    read_stage_note_idle(loader);
    worker->is_asleep = true;
    worker->next_idle = loader->idle;
    loader->idle = worker;
    while (worker->is_asleep)
        pthread_cond_wait(&worker->wake, &loader->mutex);
}

uint32_t decode_stage_take(struct loader *loader, struct load_work *group)
{
    uint32_t count = 0;
    uint64_t waiting = loader->work_next - loader->work_first;
    /* leave some to the other workers */
    uint64_t share = (waiting + loader->workers_count - 1) / loader->workers_count;
    uint32_t most = (uint32_t)bytes_min(loader->group_items, share);
    while (count < most) {
        const struct load_work *next = &loader->work[loader->work_first % loader->work_capacity];
        if (count > 0 && next->slot != group[0].slot)
            break;
        group[count++] = *next;
        loader->work_first++;
    }
    slot_acquire_memory(loader, group[0].slot);
    loader->decoding += count;
    return count;
}

void decode_stage_requeue(struct loader *loader, const struct load_work *work)
{
    loader->decoding--;
    decode_stage_add(loader, work->slot, work->item);
}

static void fail_item(struct loader *loader, struct load_slot *slot, uint32_t item,
                      const struct err *why)
{
    pthread_mutex_lock(&loader->mutex);
    slot_fail(slot, item, why);
    pthread_mutex_unlock(&loader->mutex);
}

static void describe_bad(const struct loader *loader, const struct load_slot *slot, uint32_t i,
                         struct err *err)
{
    const struct load_item *load = &slot->loads[i];
    const struct batch_item *item = &slot->items[i];
    char path[IO_PATH_BYTES_MAX] = "";
    shard_cache_path(loader->cache, load->place.shard, path, NULL);
    err_set(err, -EBADMSG, "sample \"%.*s\" cannot be used: %s",
            (int)bytes_min(item->key_bytes, 80), item->key ? item->key : "", load->reason);
    err_at(err, path, load->bad_offset);
    err_advise(
        err,
        "repair the dataset (`millrace verify %.80s --decode` lists all bad samples), or skip it: "
        "`millrace read --on-error skip`, in training `data.bad_samples: {policy: substitute}`",
        loader_source_of(loader, item->ref)->dataset->path);
}

static void decode_one(struct load_worker *worker, struct load_slot *slot, uint32_t i)
{
    struct loader *loader = worker->loader;
    struct load_item *load = &slot->loads[i];
    struct err err = {0};
    if (load->has_failed)
        return;
    if (!load->is_bad) {
        for (uint32_t k = 0; k < load->pieces_count; k++)
            worker->pieces[k] = slot->pieces[(size_t)i * loader->pieces_max + k].view;
        int status = item_decode(worker, slot, i, load->shard, slot->items[i].ref, worker->pieces,
                                 load->pieces_count, &err);
        if (!status)
            return;
        if (item_failure_is_fatal(status)) {
            fail_item(loader, slot, i, &err);
            return;
        }
        slot_note_bad(slot, i, &err);
    }
    switch (loader->options.bad_policy) {
    case LOADER_BAD_STOP:
        describe_bad(loader, slot, i, &err);
        fail_item(loader, slot, i, &err);
        break;
    case LOADER_BAD_SUBSTITUTE:
        if (item_substitute(worker, slot, i, &err))
            fail_item(loader, slot, i, &err);
        break;
    case LOADER_BAD_SKIP:
        load->substitute = slot->items[i].ref.sample;
        slot->items[i].skipped = true;
        break;
    }
}

void decode_stage_finish(struct loader *loader, const struct load_work *work)
{
    struct load_slot *slot = work->slot;
    uint32_t i = work->item;
    const struct load_piece *pieces = &slot->pieces[(size_t)i * loader->pieces_max];
    if (loader->options.decode != LOADER_BYTES) {
        for (uint32_t k = 0; k < slot->loads[i].pieces_count; k++) {
            struct load_chunk *chunk = &slot->chunks[pieces[k].chunk];
            if (pieces[k].view.read_bytes > 0 && --chunk->users == 0)
                chunk_free_memory(loader, chunk);
        }
    }
    loader->decoding--;
    slot->items_left--;
}

/* Needs mutex; unlocks it while mixing. No other thread uses the slot then. */
static void finish_slot(struct load_worker *worker, struct load_slot *slot)
{
    struct loader *loader = worker->loader;
    if (loader->mixup && slot->failed_item == UINT32_MAX) {
        pthread_mutex_unlock(&loader->mutex);
        uint64_t began_ns = trace_begin(worker->track);
        mixup_batch_slot(worker, slot);
        trace_end(worker->track, "mix", began_ns);
        pthread_mutex_lock(&loader->mutex);
    }
    slot_set_ready(loader, slot);
}

void *decode_stage_main(void *argument)
{
    struct load_worker *worker = argument;
    struct loader *loader = worker->loader;
    struct load_work group[LOADER_GROUP_ITEMS];
    pthread_mutex_lock(&loader->mutex);
    while (!loader->stop) {
        if (loader->work_first == loader->work_next) {
            sleep_until_woken(worker);
            continue;
        }
        uint32_t count = decode_stage_take(loader, group);
        pthread_mutex_unlock(&loader->mutex);
        uint64_t began_ns = trace_begin(worker->track);
        for (uint32_t i = 0; i < count; i++)
            decode_one(worker, group[i].slot, group[i].item);
        trace_end_with(worker->track, "decode", began_ns, "items", count);
        pthread_mutex_lock(&loader->mutex);
        for (uint32_t i = 0; i < count; i++)
            decode_stage_finish(loader, &group[i]);
        /* decoding frees memory, never a slot */
        if (loader->reader_block != LOAD_NO_SLOT)
            read_stage_wake(loader);
        if (group[0].slot->items_left == 0)
            finish_slot(worker, group[0].slot);
    }
    pthread_mutex_unlock(&loader->mutex);
    return NULL;
}
