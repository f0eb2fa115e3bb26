/*
 * memory_budget — see memory_budget.h; budget.c sets the sizes.
 *
 * The arena holds many samples of mean size. A sample larger than the arena gets its own memory
 * until it is decoded. All other memory is allocated in loader_open.
 */
#include "loader/memory_budget.h"

#include "base/bytes.h"
#include "device/device.h"

#include <errno.h>
#include <stdlib.h>

static unsigned own_memory_kind(void)
{
    return mem_for(MEM_HUGE, MEM_FOR_LOADER);
}

bool chunk_alloc(struct memory_budget *memory, struct load_chunk *chunk, uint64_t *ret_frees)
{
    struct io_request *request = &chunk->request;
    if (chunk->own_memory)
        return true;
    pthread_mutex_lock(&memory->mutex);
    request->data = read_arena_alloc(&memory->arena, request->bytes, request->offset);
    if (!request->data)
        *ret_frees = memory->arena.frees_count;
    pthread_mutex_unlock(&memory->mutex);
    return request->data;
}

uint64_t memory_frees_count(struct memory_budget *memory)
{
    pthread_mutex_lock(&memory->mutex);
    uint64_t count = memory->arena.frees_count;
    pthread_mutex_unlock(&memory->mutex);
    return count;
}

/* Reserves bytes from the rest of the budget. Sets *ret_spare_bytes to what remains. False: too
 * little is left. */
static bool reserve_spare(struct memory_budget *memory, uint64_t bytes, uint64_t *ret_spare_bytes)
{
    pthread_mutex_lock(&memory->mutex);
    bool fits = bytes <= memory->spare_bytes;
    *ret_spare_bytes = memory->spare_bytes -= fits ? bytes : 0;
    pthread_mutex_unlock(&memory->mutex);
    return fits;
}

int chunk_alloc_own_memory(struct memory_budget *memory, struct load_chunk *chunk,
                           uint64_t *ret_spare_bytes, struct err *err)
{
    uint64_t residue = chunk->request.offset % READ_ARENA_PAGE_BYTES;
    uint64_t bytes = bytes_round_up(residue + chunk->request.bytes, READ_ARENA_PAGE_BYTES);
    if (!reserve_spare(memory, bytes, ret_spare_bytes))
        return -ENOBUFS;
    void *own;
    int status =
        memory->device->ops->mem_alloc(memory->device, own_memory_kind(), bytes, &own, err);
    if (status)
        return status; /* ends the run */
    chunk->own_memory = own;
    chunk->own_bytes = bytes;
    chunk->request.data = (uint8_t *)own + residue; /* aligned as in the arena, for IO_PADDED */
    return 0;
}

void chunk_free_memory(struct memory_budget *memory, struct load_chunk *chunk)
{
    if (chunk->own_memory)
        memory->device->ops->mem_free(memory->device, own_memory_kind(), chunk->own_memory,
                                      chunk->own_bytes);
    pthread_mutex_lock(&memory->mutex);
    if (chunk->own_memory) {
        memory->spare_bytes += chunk->own_bytes;
        memory->arena.frees_count++; /* a waiting read may now succeed */
    } else {
        read_arena_free(&memory->arena, chunk->request.data, chunk->request.bytes);
    }
    pthread_mutex_unlock(&memory->mutex);
    chunk->own_memory = NULL;
}

void substitute_free(struct memory_budget *memory, uint8_t *substitute, uint64_t bytes)
{
    free(substitute);
    atomic_fetch_sub(&memory->substitute_bytes, bytes);
}
