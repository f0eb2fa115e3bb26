/*
 * substitute — replaces a bad sample with another one.
 *
 * Philox draws the candidates from (seed, dataset, epoch, sample) only (docs/reference/order.md),
 * and the first usable one replaces the sample, so the choice is the same in every run and on every
 * rank. The worker reads synchronously.
 */
#include "loader/state.h"

#include "base/bytes.h"
#include "base/philox.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* Allocates scratch for a candidate. */
static int reserve_scratch(struct load_worker *worker, uint64_t bytes, struct err *err)
{
    if (bytes <= worker->scratch_bytes)
        return 0;
    struct loader *loader = worker->loader;
    substitute_free(&loader->memory, worker->scratch, worker->scratch_bytes);
    worker->scratch = NULL;
    worker->scratch_bytes = 0;
    int status = substitute_alloc(&loader->memory, bytes, loader->sources[0].dataset->path,
                                  &worker->scratch, err);
    worker->scratch_bytes = status ? 0 : bytes;
    return status;
}

static int read_pieces(struct load_worker *worker, const struct shard *shard, uint32_t count,
                       struct err *err)
{
    struct loader *loader = worker->loader;
    uint64_t bytes = 1, at = 0, wanted = 0;
    for (uint32_t i = 0; i < count; i++) {
        bytes += worker->pieces[i].read_bytes;
        wanted += worker->pieces[i].want_bytes;
    }
    int status = reserve_scratch(worker, bytes, err);
    if (!status && !worker->queue)
        status = loader->io->ops->queue_open(loader->io, 1, &worker->queue, err);
    for (uint32_t i = 0; !status && i < count; i++) {
        struct view_piece *piece = &worker->pieces[i];
        piece->data = worker->scratch + at;
        status = io_read_exact(worker->queue, loader->io, shard->file, shard->path,
                               piece->read_offset, worker->scratch + at, piece->read_bytes, err);
        at += piece->read_bytes;
    }
    pthread_mutex_lock(&loader->mutex);
    loader->stats.read_bytes += at;
    loader->stats.wanted_bytes += wanted;
    loader->stats.reads_count += count;
    pthread_mutex_unlock(&loader->mutex);
    return status;
}

static int try_candidate(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                         struct sample_ref candidate, struct err *err)
{
    struct loader *loader = worker->loader;
    struct load_item *load = &slot->load_items[item];
    const struct view *view = loader_source_of(loader, candidate)->view;
    struct sample_location location = view_locate(view, candidate);
    struct shard *shard;
    uint32_t count = 0;
    atomic_fetch_add(&slot->shards_awaited, 1);
    int status = shard_cache_get(loader->cache, location.shard, OPEN_FILES_ALL, &shard, err);
    atomic_fetch_sub(&slot->shards_awaited, 1);
    if (status)
        return status;
    status = view_pieces(view, shard, location, candidate, worker->pieces, &count, err);
    if (!status)
        status = read_pieces(worker, shard, count, err);
    if (!status)
        status = item_decode(worker, slot, item, shard, candidate, worker->pieces, count, err);
    if (status || loader->options.decode != LOADER_BYTES) {
        shard_cache_put(loader->cache, location.shard);
        return status;
    }
    load->substitute_shard = shard;
    load->substitute_shard_number = location.shard;
    load->substitute_bytes = worker->scratch_bytes;
    /* the batch points to it; the worker allocates another one next time */
    load->substitute_data = worker->scratch;
    worker->scratch = NULL;
    worker->scratch_bytes = 0;
    return 0;
}

int item_substitute(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                    struct err *err)
{
    struct loader *loader = worker->loader;
    struct sample_ref ref = slot->items[item].ref;
    const struct load_source *source = loader_source_of(loader, ref);
    for (uint32_t k = 0; k < LOADER_SUBSTITUTES_MAX; k++) {
        struct philox_block block = philox_sample(loader->order.seed, ref.dataset, ref.epoch,
                                                  ref.sample, PHILOX_SUBSTITUTE, k);
        struct sample_ref candidate = ref;
        candidate.sample =
            ((uint64_t)block.word[0] << 32 | block.word[1]) % view_samples(source->view);
        int status = try_candidate(worker, slot, item, candidate, err);
        if (!status) {
            slot->load_items[item].substitute = candidate.sample;
            slot->items[item].substituted = true;
            return 0;
        }
        if (item_failure_is_fatal(status))
            return status;
    }
    const struct load_item *load = &slot->load_items[item];
    char path[IO_PATH_BYTES_MAX] = "";
    shard_cache_path(loader->cache, load->location.shard, path, NULL);
    err_set(err, -EBADMSG, "neither sample \"%.*s\" nor its %d substitutes can be used: %s",
            (int)bytes_min(slot->items[item].key_bytes, 80),
            slot->items[item].key ? slot->items[item].key : "", LOADER_SUBSTITUTES_MAX,
            load->reason);
    err_at(err, path, load->bad_offset);
    err_advise(err, "run `millrace verify %.160s --decode` to list all bad samples",
               source->dataset->path);
    return -EBADMSG;
}
