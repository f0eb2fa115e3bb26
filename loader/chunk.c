/*
 * chunk — see chunks.h.
 */
#include "loader/state.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int chunk_pool_init(struct chunk_pool *pool, uint64_t count)
{
    pool->chunks = calloc(count, sizeof *pool->chunks);
    if (!pool->chunks)
        return -ENOMEM;
    pool->chunks_count = count;
    for (uint64_t i = 0; i < count; i++)
        chunk_list_append(&pool->free, &pool->chunks[i]);
    return 0;
}

void chunk_pool_deinit(struct chunk_pool *pool)
{
    free(pool->chunks);
    *pool = (struct chunk_pool){0};
}

void chunk_pool_reclaim(struct chunk_pool *pool)
{
    while (pool->freed) {
        struct load_chunk *chunk = pool->freed;
        pool->freed = chunk->next;
        chunk_list_append(&pool->free, chunk);
    }
}

void chunk_list_append(struct chunk_list *list, struct load_chunk *chunk)
{
    chunk->next = NULL;
    if (list->first)
        list->last->next = chunk;
    else
        list->first = chunk;
    list->last = chunk;
}

struct load_chunk *chunk_list_take(struct chunk_list *list)
{
    struct load_chunk *chunk = list->first;
    if (chunk)
        list->first = chunk->next;
    return chunk;
}

struct load_chunk *chunk_plan(struct reader *reader, const struct shard *shard,
                              uint64_t shard_number, uint64_t begin, uint64_t end)
{
    struct load_chunk *chunk = chunk_list_take(&reader->chunks.free);
    assert(chunk && begin < end);
    *chunk = (struct load_chunk){.shard = shard_number};
    chunk->request = (struct io_request){.kind = IO_READ,
                                         .file = shard->file,
                                         .offset = begin,
                                         .bytes = end - begin,
                                         .flags = reader->flags,
                                         .user = chunk};
    chunk_list_append(&reader->unissued, chunk);
    return chunk;
}

void chunk_join(struct load_chunk *chunk, struct load_piece *piece)
{
    piece->chunk = chunk;
    piece->next_waiting = NULL;
    if (chunk->first_waiting)
        chunk->last_waiting->next_waiting = piece;
    else
        chunk->first_waiting = piece;
    chunk->last_waiting = piece;
    chunk->users++;
}

/* ---- Delivery. ---- */

/* Requires the mutex. A truncated file and damaged compressed data make the sample bad; a read
 * error ends the run. */
static void note_failed_read(const struct load_piece *piece, ssize_t result)
{
    struct load_slot *slot = piece->slot;
    struct load_item *load = &slot->load_items[piece->item];
    struct err why = {0};
    if (load->is_bad || load->has_failed)
        return;
    if (result < 0)
        err_errno(&why, (int)result, "could not read the shard");
    else
        err_set(&why, -ENODATA, "the shard ends too early");
    err_at(&why, load->shard->path, (int64_t)piece->view.read_offset);
    if (result >= 0 || result == -EBADMSG) {
        slot_note_bad(slot, piece->item, &why);
        return;
    }
    err_advise(
        &why,
        "check the disk or the network, then resume; no sample was replaced because of this error");
    load->has_failed = true;
    slot_fail(slot, piece->item, &why);
}

/* Requires the mutex. */
static void deliver_piece(struct loader *loader, struct load_piece *piece, uint64_t now_ns)
{
    const struct io_request *request = &piece->chunk->request;
    struct load_slot *slot = piece->slot;
    uint64_t begin = piece->view.read_offset - request->offset;
    uint64_t read_bytes = request->result > 0 ? (uint64_t)request->result : 0;
    piece->view.data = (const uint8_t *)request->data + begin;
    loader->stats.wanted_bytes += piece->view.want_bytes;
    if (begin + piece->view.read_bytes > read_bytes)
        note_failed_read(piece, request->result);
    if (--slot->pieces_left == 0)
        slot->read_done_ns = now_ns;
    if (--slot->load_items[piece->item].pieces_left > 0)
        return;
    if (inline_decode_is_steady(&loader->reader))
        decode_pool_add_without_wake(&loader->pool, slot, piece->item);
    else
        decode_pool_add(&loader->pool, slot, piece->item);
}

void chunk_deliver(struct loader *loader, struct load_chunk *chunk, uint64_t now_ns)
{
    assert(chunk->is_read);
    while (chunk->first_waiting) {
        struct load_piece *piece = chunk->first_waiting;
        chunk->first_waiting = piece->next_waiting;
        deliver_piece(loader, piece, now_ns);
    }
}

void chunk_release(struct loader *loader, struct load_chunk *chunk)
{
    assert(chunk->users > 0);
    if (--chunk->users > 0)
        return;
    if (chunk->request.data)
        chunk_free_memory(&loader->memory, chunk);
    if (chunk->is_long)
        long_reads_note_freed(&loader->reader.long_reads, chunk);
    chunk->next = loader->reader.chunks.freed;
    loader->reader.chunks.freed = chunk;
}
