/*
 * read_plan — turns a micro-batch's positions into reads: looks up samples, sorts their pieces
 * in file order and merges neighbors.
 */
#include "loader/state.h"

#include <stdint.h>

static const uint8_t no_bytes[1]; /* data of empty fields */

static bool is_read_before(const struct sorted_piece *a, const struct sorted_piece *b)
{
    if (a->shard != b->shard)
        return a->shard < b->shard;
    uint64_t a_offset = a->piece->view.read_offset, b_offset = b->piece->view.read_offset;
    return a_offset != b_offset ? a_offset < b_offset : a->piece < b->piece;
}

static void sift_down(struct sorted_piece *list, uint32_t root, uint32_t count)
{
    for (uint64_t child; (child = 2 * (uint64_t)root + 1) < count; root = (uint32_t)child) {
        if (child + 1 < count && is_read_before(&list[child], &list[child + 1]))
            child++;
        if (!is_read_before(&list[root], &list[child]))
            return;
        struct sorted_piece swapped = list[root];
        list[root] = list[child];
        list[child] = swapped;
    }
}

/* Heapsort, because qsort may allocate. */
static void sort_pieces(struct sorted_piece *list, uint32_t count)
{
    for (uint32_t root = count / 2; root-- > 0;)
        sift_down(list, root, count);
    for (uint32_t last = count; last-- > 1;) {
        struct sorted_piece swapped = list[0];
        list[0] = list[last];
        list[last] = swapped;
        sift_down(list, 0, last);
    }
}

/* True if the chunk ending at chunk_end may grow to `end`, the end of the next piece. The
 * chunk's size is limited, except that a small field may join a large one of the same sample. */
static bool fits_chunk(const struct loader *loader, const struct load_chunk *chunk,
                       uint64_t chunk_end, const struct load_piece *piece, uint64_t end)
{
    if (end <= chunk_end || end - chunk->request.offset <= loader->reader.chunk_bytes_max)
        return true;
    return chunk->first_waiting->item == piece->item && end <= chunk_end + LOADER_MERGE_GAP_BYTES;
}

static void merge_into_chunks(struct loader *loader, const struct load_slot *slot,
                              uint64_t gap_bytes)
{
    struct reader *reader = &loader->reader;
    struct load_chunk *chunk = NULL;
    uint64_t chunk_shard = 0, chunk_end = 0;
    for (uint32_t i = 0; i < reader->sorted_pieces_count; i++) {
        uint64_t shard = reader->sorted_pieces[i].shard;
        struct load_piece *piece = reader->sorted_pieces[i].piece;
        uint64_t begin = piece->view.read_offset, end = begin + piece->view.read_bytes;
        bool joins = chunk && chunk_shard == shard && begin <= chunk_end + gap_bytes &&
                     fits_chunk(loader, chunk, chunk_end, piece, end);
        if (!joins) {
            chunk = chunk_take(&reader->chunks);
            chunk->request = (struct io_request){
                .kind = IO_READ, .offset = begin, .flags = reader->flags, .user = chunk};
            chunk->request.file = slot->load_items[piece->item].shard->file;
            chunk_list_append(&reader->unissued, chunk);
            chunk_shard = shard;
            chunk_end = begin;
        }
        chunk_end = end > chunk_end ? end : chunk_end;
        chunk->request.bytes = chunk_end - chunk->request.offset;
        chunk_join(chunk, piece);
    }
}

/* Looks up the sample's shard, key and pieces. Marks the sample as bad, or returns a failure
 * that the data did not cause and that ends the run. */
static int plan_item(struct loader *loader, struct load_slot *slot, uint32_t i,
                     enum open_files_fraction share, struct err *err)
{
    struct load_item *load = &slot->load_items[i];
    struct batch_item *item = &slot->items[i];
    const struct view *view = loader_source_of(loader, item->ref)->view;
    load->location = view_locate(view, item->ref.sample);
    item->window = load->location.window;
    int status = shard_cache_get(loader->cache, load->location.shard, share, &load->shard, err);
    if (status) {
        load->shard = NULL;
        return status;
    }
    item->key = shard_index_key(load->shard->index, load->location.member, &item->key_bytes);
    struct load_piece *pieces = loader_pieces(loader, slot, i);
    struct view_piece views[SHARD_FIELDS_MAX];
    uint32_t count;
    status = view_pieces(view, load->shard, load->location, item->ref, views, &count, err);
    if (status)
        return status;
    load->pieces_count = count;
    for (uint32_t k = 0; k < count; k++) {
        pieces[k] = (struct load_piece){.view = views[k], .slot = slot, .item = i};
        pieces[k].view.data = no_bytes;
        load->pieces_left += views[k].read_bytes > 0;
    }
    slot->pieces_left += load->pieces_left;
    return 0;
}

int read_plan_items(struct loader *loader, struct load_slot *slot, uint64_t first, uint64_t stride,
                    enum open_files_fraction share, struct err *err)
{
    uint32_t epoch = slot->micro.epoch;
    uint64_t samples = loader->order.samples;
    for (uint32_t i = 0; i < slot->batch.items_count; i++) {
        struct batch_item *item = &slot->items[i];
        item->position = first + i * stride;
        item->is_padding = item->position >= samples;
        item->ref = sampler_at(loader->reader.sampler, epoch, item->position % samples);
        if (!item->is_padding) {
            slot->set_digest += digest_set_term(item->ref);
            slot->sequence_digest += digest_sequence_term(epoch, item->position, item->ref);
        }
        struct err why = {0};
        int status = plan_item(loader, slot, i, share, &why);
        if (status && item_failure_is_fatal(status)) {
            *err = why;
            return status;
        }
        if (status)
            slot_note_bad(slot, i, &why);
    }
    return 0;
}

static void collect_pieces(struct loader *loader, const struct load_slot *slot)
{
    struct reader *reader = &loader->reader;
    reader->sorted_pieces_count = 0;
    for (uint32_t i = 0; i < slot->batch.items_count; i++) {
        const struct load_item *load = &slot->load_items[i];
        struct load_piece *pieces = loader_pieces(loader, slot, i);
        for (uint32_t k = 0; k < load->pieces_count; k++)
            if (pieces[k].view.read_bytes > 0)
                reader->sorted_pieces[reader->sorted_pieces_count++] =
                    (struct sorted_piece){.shard = load->location.shard, .piece = &pieces[k]};
    }
}

void read_plan_chunks(struct loader *loader, struct load_slot *slot, uint64_t gap_bytes)
{
    struct reader *reader = &loader->reader;
    collect_pieces(loader, slot);
    sort_pieces(reader->sorted_pieces, reader->sorted_pieces_count);
    merge_into_chunks(loader, slot, gap_bytes);
}
