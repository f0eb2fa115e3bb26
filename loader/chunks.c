/*
 * chunks — see chunks.h.
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

struct load_chunk *chunk_take(struct chunk_pool *pool)
{
    struct load_chunk *chunk = chunk_list_take(&pool->free);
    assert(chunk);
    *chunk = (struct load_chunk){0};
    return chunk;
}

void chunk_join(struct load_chunk *chunk, struct load_piece *piece)
{
    assert(!chunk->is_read);
    piece->chunk = chunk;
    piece->next_waiting = NULL;
    if (chunk->first_waiting)
        chunk->last_waiting->next_waiting = piece;
    else
        chunk->first_waiting = piece;
    chunk->last_waiting = piece;
    chunk->users++;
}

void chunk_release(struct loader *loader, struct load_chunk *chunk)
{
    assert(chunk->users > 0 && chunk->is_read);
    if (--chunk->users > 0)
        return;
    chunk_free_memory(&loader->memory, chunk);
    chunk->next = loader->reader.chunks.freed;
    loader->reader.chunks.freed = chunk;
}
