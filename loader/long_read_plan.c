/*
 * long_read_plan — plans long reads, and lets micro-batches share them (long_reads.h).
 */
#include "loader/state.h"

#include "base/bytes.h"
#include "base/clock.h"

/* ---- Planning. ---- */

static void drop_chunk(struct loader *loader, struct load_chunk *chunk)
{
    chunk->keeper = NULL;
    chunk->next_dropped = loader->reader.long_reads.dropped;
    loader->reader.long_reads.dropped = chunk;
}

static void drop_part(struct loader *loader, struct kept_part *part)
{
    for (uint32_t i = 0; i < part->chunks_count; i++)
        drop_chunk(loader, part->chunks[i]);
    part->chunks_count = 0;
}

static bool is_in_chunk(const struct view_piece *piece, const struct load_chunk *chunk)
{
    const struct io_request *request = &chunk->request;
    return piece->read_offset >= request->offset &&
           piece->read_offset + piece->read_bytes <= request->offset + request->bytes;
}

/* Gives the item's pieces the chunks that have them. True if all pieces have one. */
static bool find_chunks(struct loader *loader, const struct load_slot *slot, uint32_t item,
                        const struct kept_part *part)
{
    const struct load_item *load = &slot->load_items[item];
    struct load_piece *pieces = loader_pieces(loader, slot, item);
    bool has_all = true;
    for (uint32_t k = 0; k < load->pieces_count; k++) {
        for (uint32_t i = 0; !pieces[k].chunk && i < part->chunks_count; i++)
            if (part->chunks[i]->shard == load->location.shard &&
                is_in_chunk(&pieces[k].view, part->chunks[i]))
                pieces[k].chunk = part->chunks[i];
        has_all = has_all && (pieces[k].chunk || pieces[k].view.read_bytes == 0);
    }
    return has_all;
}

/* True if only some rows of a large image are wanted: a long read would fetch the others too. */
static bool is_narrowed(const struct load_source *source, const struct view_piece *view)
{
    return view->rows.count > 0 && view->field.size_bytes > source->gap_bytes_max;
}

static bool has_all_extents(const struct reader *reader)
{
    return reader->extents_count == LONG_READ_EXTENTS_MAX;
}

static void add_extent(struct reader *reader, uint64_t shard, uint64_t sample,
                       const struct view_piece *view, struct load_piece *piece)
{
    if (view->read_bytes > 0)
        reader->extents[reader->extents_count++] =
            (struct extent){.shard = shard,
                            .begin = view->read_offset,
                            .end = view->read_offset + view->read_bytes,
                            .sample = sample,
                            .user = piece};
}

/* True if this rank will deliver the sample at the location, as far as is known. */
static bool is_wanted(const struct loader *loader, const struct plan_micro *now,
                      struct mix_location location)
{
    const struct plan *plan = &loader->reader.plan;
    uint32_t epoch;
    if (now->epoch == UINT32_MAX && loader->sources_count > 1)
        return false; /* the location may be beyond the last epoch */
    uint64_t position = sampler_position(loader->reader.sampler, location, &epoch), n;
    uint64_t end = plan->epoch_end;
    if (epoch == now->epoch && plan->positions_left < end)
        end = bytes_min(end, plan->position + plan->positions_left);
    bool is_delivered = epoch < now->epoch || (epoch == now->epoch && position < now->begin);
    if (is_delivered || position >= end || (epoch > now->epoch && plan->epochs_left <= 1))
        return false;
    uint64_t micro = batching_micro_of(&plan->batching, plan->order, plan->epoch_end, position);
    return batching_owned_index(&plan->batching, micro, &n);
}

/* True if whole images are read although only some rows are wanted, because other epochs want
 * others. */
static bool reads_whole_images(const struct loader *loader, const struct load_source *source)
{
    return source->is_resident && loader->options.epochs_max != 1;
}

/* Adds the pieces of a sample that is needed later, if it is in the item's shard. */
static void add_sample(struct loader *loader, const struct load_item *load, struct sample_ref ref)
{
    struct reader *reader = &loader->reader;
    const struct load_source *source = loader_source_of(loader, ref);
    struct view_piece views[SHARD_FIELDS_MAX];
    struct sample_location place = view_locate(source->view, ref);
    uint32_t count;
    if (place.shard != load->location.shard ||
        view_pieces(source->view, load->shard, place, ref, views, &count, NULL))
        return;
    if (reads_whole_images(loader, source))
        for (uint32_t k = 0; k < count; k++)
            view_widen_rows(&views[k]);
    else if (is_narrowed(source, &views[0]))
        return;
    for (uint32_t k = 0; k < count && !has_all_extents(reader); k++)
        add_extent(reader, place.shard, ref.sample, &views[k], NULL);
}

/* Adds the item's pieces that have no chunk. */
static void add_item(struct loader *loader, const struct load_slot *slot, uint32_t item)
{
    const struct load_item *load = &slot->load_items[item];
    struct sample_ref ref = slot->items[item].ref;
    struct load_piece *pieces = loader_pieces(loader, slot, item);
    const struct load_source *source = loader_source_of(loader, ref);
    bool is_whole = reads_whole_images(loader, source);
    if (is_narrowed(source, &pieces[0].view) && !is_whole) /* an image is the first piece */
        return;
    for (uint32_t k = 0; k < load->pieces_count; k++) {
        struct view_piece view = pieces[k].view;
        if (is_whole)
            view_widen_rows(&view);
        if (!pieces[k].chunk)
            add_extent(&loader->reader, load->location.shard, ref.sample, &view, &pieces[k]);
    }
}

/* Adds the samples that the lane delivers next, up to the end of the part. */
static void add_lane(struct loader *loader, const struct load_slot *slot, uint32_t item,
                     struct mix_location location, const struct kept_part *part)
{
    uint64_t lanes = long_reads_order(loader, location.dataset)->lanes;
    for (uint64_t turn = location.position / lanes + 1;
         turn < part->end && !has_all_extents(&loader->reader); turn++) {
        location.position += lanes;
        if (is_wanted(loader, &slot->micro, location))
            add_sample(loader, &slot->load_items[item],
                       sampler_sample(loader->reader.sampler, location));
    }
}

/* Adds the other samples of a resident group. */
static void add_group(struct loader *loader, const struct load_slot *slot, uint32_t item)
{
    struct sample_ref ref = slot->items[item].ref;
    uint64_t own = ref.sample, size = long_reads_group_samples(loader, ref.dataset),
             first = own / size * size;
    uint64_t end = bytes_min(first + size, long_reads_order(loader, ref.dataset)->samples);
    for (ref.sample = first; ref.sample < end && !has_all_extents(&loader->reader); ref.sample++)
        if (ref.sample != own)
            add_sample(loader, &slot->load_items[item], ref);
}

static uint64_t chunk_pages_bytes(uint64_t begin, uint64_t end)
{
    return bytes_round_up(end, READ_ARENA_PAGE_BYTES) -
           begin / READ_ARENA_PAGE_BYTES * READ_ARENA_PAGE_BYTES;
}

/* True if a chunk of so many bytes would exceed the memory for long reads. */
static bool is_full(const struct long_reads *reads, uint64_t bytes)
{
    return bytes > 0 && atomic_load(&reads->all_bytes) + bytes > reads->all_bytes_max;
}

static bool is_one_sample(const struct extent *extents, uint32_t count)
{
    return extents[count - 1].sample == extents[0].sample;
}

void long_reads_note_freed(struct long_reads *reads, const struct load_chunk *chunk)
{
    const struct io_request *request = &chunk->request;
    atomic_fetch_sub(&reads->all_bytes,
                     chunk_pages_bytes(request->offset, request->offset + request->bytes));
}

/* Keeps a chunk for the extents if they include the item's and, unless it is kept for all epochs,
 * those of other samples. */
static void plan_chunk(struct loader *loader, const struct load_item *load, struct kept_part *part,
                       bool is_resident, const struct extent *extents, uint32_t count, uint64_t end)
{
    struct long_reads *reads = &loader->reader.long_reads;
    bool has_own = false, has_others = is_resident;
    for (uint32_t i = 0; i < count; i++) {
        has_own = has_own || extents[i].user;
        has_others = has_others || !extents[i].user;
    }
    if (!has_own || !has_others || part->chunks_count == LONG_READ_CHUNKS_MAX)
        return;
    uint64_t bytes = chunk_pages_bytes(extents[0].begin, end);
    if (is_full(reads, bytes)) {
        reads->refused_bytes = bytes;
        return;
    }
    atomic_fetch_add(&reads->all_bytes, bytes);
    struct load_chunk *chunk =
        chunk_plan(&loader->reader, load->shard, load->location.shard, extents[0].begin, end);
    chunk->is_long = true;
    chunk->users = 1;
    chunk->keeper = part;
    part->chunks[part->chunks_count++] = chunk;
    for (uint32_t i = 0; i < count; i++)
        if (extents[i].user)
            ((struct load_piece *)extents[i].user)->chunk = chunk;
}

static void plan_part(struct loader *loader, const struct load_slot *slot, uint32_t item,
                      struct mix_location location, struct kept_part *part)
{
    struct reader *reader = &loader->reader;
    const struct load_source *source = &loader->sources[location.dataset];
    const struct extent_limits limits = {.gap_bytes = source->gap_bytes_max,
                                         .bytes_max = reader->long_reads.bytes_max,
                                         .same_sample_gap_bytes = LOADER_SAMPLE_GAP_BYTES};
    bool is_resident = source->is_resident;
    reader->extents_count = 0;
    if (part->chunks_count == LONG_READ_CHUNKS_MAX || part->has_no_neighbors ||
        is_full(&reader->long_reads, reader->long_reads.refused_bytes))
        return;
    reader->long_reads.refused_bytes = 0;
    add_item(loader, slot, item);
    if (reader->extents_count == 0)
        return;
    if (is_resident)
        add_group(loader, slot, item);
    else
        add_lane(loader, slot, item, location, part);
    extents_sort(reader->extents, reader->extents_count);
    part->has_no_neighbors = !is_resident && reader->extents_count > 1;
    for (uint32_t i = 0, count; i < reader->extents_count; i += count) {
        uint64_t end;
        count = extents_merge(reader->extents + i, reader->extents_count - i, &limits, &end);
        part->has_no_neighbors =
            part->has_no_neighbors && is_one_sample(reader->extents + i, count);
        plan_chunk(loader, &slot->load_items[item], part, is_resident, reader->extents + i, count,
                   end);
    }
}

/* Counts the next samples of a sequential order up to those of another rank. */
static uint64_t count_wanted(const struct loader *loader, const struct plan_micro *now,
                             struct mix_location location, uint64_t samples)
{
    for (uint64_t i = 0; i < samples; i++) {
        location.position++;
        if (!is_wanted(loader, now, location))
            return i;
    }
    return samples;
}

/* Lets a lane begin another part at the turn. */
static void begin_part(struct loader *loader, struct kept_part *part, const struct plan_micro *now,
                       struct mix_location location, uint64_t turn)
{
    struct reader *reader = &loader->reader;
    uint32_t quarters = reader->long_reads.quarters;
    uint64_t samples_max = long_reads_part_samples(loader, location.dataset, ORDER_QUARTERS),
             left = 0;
    if (quarters > 0)
        left = sampler_neighbors_ahead(reader->sampler, location, quarters);
    left = bytes_min(left, samples_max - 1);
    if (long_reads_order(loader, location.dataset)->kind == ORDER_SEQUENTIAL)
        left = count_wanted(loader, now, location, left);
    drop_part(loader, part);
    part->epoch = location.epoch;
    part->end = turn + 1 + left;
    part->has_no_neighbors = false;
}

static void plan_item(struct loader *loader, const struct load_slot *slot, uint32_t item,
                      bool may_plan)
{
    struct mix_location location =
        sampler_locate(loader->reader.sampler, slot->micro.epoch, slot->items[item].position);
    uint64_t lanes = long_reads_order(loader, location.dataset)->lanes,
             turn = location.position / lanes;
    bool is_resident = loader->sources[location.dataset].is_resident;
    struct kept_part *part = long_reads_find_part(loader, location, slot->items[item].ref.sample);
    if (!part)
        return;
    if (!is_resident && (part->epoch != location.epoch || turn >= part->end))
        begin_part(loader, part, &slot->micro, location, turn);
    if (!find_chunks(loader, slot, item, part) && may_plan)
        plan_part(loader, slot, item, location, part);
    if (!is_resident && turn + 1 == part->end)
        drop_part(loader, part);
}

void long_reads_plan(struct loader *loader, struct load_slot *slot)
{
    struct reader *reader = &loader->reader;
    const struct long_reads *reads = &reader->long_reads;
    bool is_first = loader->planned == 0;
    bool may_plan = reads->quarters > 0 && !is_first && !reader_is_cached(reader);
    if (reads->first_parts[loader->sources_count] == 0)
        return;
    for (uint32_t i = 0; i < slot->batch.items_count; i++)
        if (slot->load_items[i].pieces_left > 0 && !slot->items[i].is_padding)
            plan_item(loader, slot, i, may_plan);
}

/* ---- Under the mutex. ---- */

static void release_dropped(struct loader *loader)
{
    struct long_reads *reads = &loader->reader.long_reads;
    while (reads->dropped) {
        struct load_chunk *chunk = reads->dropped;
        reads->dropped = chunk->next_dropped;
        chunk_release(loader, chunk);
    }
}

void long_reads_commit(struct loader *loader, struct load_slot *slot)
{
    uint64_t now_ns = clock_now_ns();
    for (uint32_t i = 0; i < slot->batch.items_count; i++) {
        struct load_piece *pieces = loader_pieces(loader, slot, i);
        for (uint32_t k = 0; k < slot->load_items[i].pieces_count; k++) {
            struct load_chunk *chunk = pieces[k].chunk;
            if (!chunk || !chunk->is_long)
                continue;
            chunk_join(chunk, &pieces[k]);
            if (chunk->is_read)
                chunk_deliver(loader, chunk, now_ns);
        }
    }
    release_dropped(loader);
}

/* Reads each piece that waits for the chunk by itself. */
static void split(struct loader *loader, struct load_chunk *chunk)
{
    struct reader *reader = &loader->reader;
    chunk_pool_reclaim(&reader->chunks);
    while (chunk->first_waiting) {
        struct load_piece *piece = chunk->first_waiting;
        chunk->first_waiting = piece->next_waiting;
        const struct shard *shard = piece->slot->load_items[piece->item].shard;
        struct load_chunk *own = chunk_plan(reader, shard, chunk->shard, piece->view.read_offset,
                                            piece->view.read_offset + piece->view.read_bytes);
        chunk_join(own, piece);
        chunk_release(loader, chunk);
    }
}

/* Stops keeping the chunks of all lanes, or of all groups. False if there were none. */
static bool drop_parts(struct loader *loader, bool is_resident)
{
    struct long_reads *reads = &loader->reader.long_reads;
    bool had_any = false;
    for (uint32_t k = 0; k < loader->sources_count; k++)
        for (uint64_t i = reads->first_parts[k];
             loader->sources[k].is_resident == is_resident && i < reads->first_parts[k + 1]; i++) {
            had_any = had_any || reads->parts[i].chunks_count > 0;
            drop_part(loader, &reads->parts[i]);
            reads->parts[i].end = 0;
        }
    release_dropped(loader);
    return had_any;
}

static bool split_unissued(struct loader *loader)
{
    struct reader *reader = &loader->reader;
    struct chunk_list unissued = reader->unissued;
    bool had_any = false;
    reader->unissued = (struct chunk_list){0};
    for (struct load_chunk *chunk; (chunk = chunk_list_take(&unissued));) {
        had_any = had_any || chunk->is_long;
        if (chunk->is_long)
            split(loader, chunk);
        else
            chunk_list_append(&reader->unissued, chunk);
    }
    return had_any;
}

bool long_reads_shrink(struct loader *loader, bool is_temporary)
{
    bool had_kept = drop_parts(loader, false), had_any = split_unissued(loader) || had_kept;
    if (had_kept && !is_temporary)
        loader->reader.long_reads.quarters /= 2;
    return had_any || drop_parts(loader, true);
}

void long_reads_split(struct loader *loader, struct load_chunk *chunk)
{
    struct reader *reader = &loader->reader;
    struct kept_part *part = chunk->keeper;
    for (uint32_t i = 0; part && i < part->chunks_count; i++)
        if (part->chunks[i] == chunk) {
            part->chunks[i] = part->chunks[--part->chunks_count];
            drop_chunk(loader, chunk);
            release_dropped(loader);
            break;
        }
    struct chunk_list unissued = reader->unissued;
    reader->unissued = (struct chunk_list){0};
    split(loader, chunk);
    for (struct load_chunk *next; (next = chunk_list_take(&unissued));)
        chunk_list_append(&reader->unissued, next);
}
