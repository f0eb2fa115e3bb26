/*
 * oversized_read — memory for a read that the arena can never hold.
 *
 * The arena holds many samples of the mean size, but a sample may be larger than all of it. Such a
 * sample gets its own memory if the budget has enough left; it is freed as soon as its bytes are no
 * longer needed. Nothing else of the budget is allocated after loader_open.
 */
#include "loader/state.h"

#include "base/bytes.h"

#include <errno.h>

static unsigned own_kind(void)
{
    return mem_for(MEM_HUGE, MEM_FOR_LOADER);
}

int chunk_alloc_own_memory(struct loader *loader, struct load_chunk *chunk, struct err *err)
{
    uint64_t residue = chunk->request.offset % READ_ARENA_PAGE_BYTES;
    uint64_t bytes = bytes_round_up(residue + chunk->request.bytes, READ_ARENA_PAGE_BYTES);
    if (bytes > loader->spare_bytes)
        return -ENOBUFS;
    void *memory;
    int status = loader->device->ops->mem_alloc(loader->device, own_kind(), bytes, &memory, err);
    if (status)
        return status;
    chunk->own_memory = memory;
    chunk->own_bytes = bytes;
    chunk->request.data = (uint8_t *)memory + residue; /* aligned as in the arena, for IO_PADDED */
    loader->spare_bytes -= bytes;
    return 0;
}

void chunk_free_memory(struct loader *loader, struct load_chunk *chunk)
{
    if (!chunk->own_memory) {
        read_arena_free(&loader->arena, chunk->request.data, chunk->request.bytes);
        return;
    }
    loader->device->ops->mem_free(loader->device, own_kind(), chunk->own_memory, chunk->own_bytes);
    loader->spare_bytes += chunk->own_bytes;
    chunk->own_memory = NULL;
    loader->arena.frees_count++; /* a read waiting for memory may now succeed */
}
