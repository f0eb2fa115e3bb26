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
#include <inttypes.h>
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

bool memory_reserve_spare(struct memory_budget *memory, uint64_t bytes, uint64_t *ret_spare_bytes)
{
    pthread_mutex_lock(&memory->mutex);
    bool fits = bytes <= memory->spare_bytes;
    *ret_spare_bytes = memory->spare_bytes -= fits ? bytes : 0;
    pthread_mutex_unlock(&memory->mutex);
    return fits;
}

void memory_return_spare(struct memory_budget *memory, uint64_t bytes)
{
    pthread_mutex_lock(&memory->mutex);
    memory->spare_bytes += bytes;
    memory->arena.frees_count++; /* a waiting read may now succeed */
    pthread_mutex_unlock(&memory->mutex);
}

uint64_t memory_spare_bytes(struct memory_budget *memory)
{
    pthread_mutex_lock(&memory->mutex);
    uint64_t bytes = memory->spare_bytes;
    pthread_mutex_unlock(&memory->mutex);
    return bytes;
}

int chunk_alloc_own_memory(struct memory_budget *memory, struct load_chunk *chunk,
                           uint64_t *ret_spare_bytes, struct err *err)
{
    uint64_t residue = chunk->request.offset % READ_ARENA_PAGE_BYTES;
    uint64_t bytes = bytes_round_up(residue + chunk->request.bytes, READ_ARENA_PAGE_BYTES);
    if (!memory_reserve_spare(memory, bytes, ret_spare_bytes))
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
    if (chunk->own_memory) {
        memory->device->ops->mem_free(memory->device, own_memory_kind(), chunk->own_memory,
                                      chunk->own_bytes);
        memory_return_spare(memory, chunk->own_bytes);
        chunk->own_memory = NULL;
        return;
    }
    pthread_mutex_lock(&memory->mutex);
    read_arena_free(&memory->arena, chunk->request.data, chunk->request.bytes);
    pthread_mutex_unlock(&memory->mutex);
}

int substitute_reserve(struct memory_budget *memory, uint64_t bytes, const char *dataset,
                       struct err *err)
{
    uint64_t previous_bytes = atomic_fetch_add(&memory->substitute_bytes, bytes);
    if (previous_bytes <= memory->limit_bytes && bytes <= memory->limit_bytes - previous_bytes)
        return 0;
    atomic_fetch_sub(&memory->substitute_bytes, bytes);
    err_set(err, -ENOBUFS, "a substitute for a bad sample does not fit the loader's memory");
    err_at(err, dataset, ERR_NO_OFFSET);
    err_expected(err, "at most %" PRIu64 " bytes for all substitutes together",
                 memory->limit_bytes);
    err_found(err, "a sample of %" PRIu64 " bytes", bytes);
    err_advise(err, "give the loader more memory or repair the dataset (`millrace verify %.120s`)",
               dataset);
    return -ENOBUFS;
}

int substitute_alloc(struct memory_budget *memory, uint64_t bytes, const char *dataset,
                     uint8_t **ret_data, struct err *err)
{
    int status = substitute_reserve(memory, bytes, dataset, err);
    if (status)
        return status;
    *ret_data = malloc(bytes);
    if (*ret_data)
        return 0;
    substitute_free(memory, NULL, bytes);
    return err_set(err, -ENOMEM, "out of memory for a sample of %" PRIu64 " bytes", bytes);
}

void substitute_free(struct memory_budget *memory, uint8_t *substitute, uint64_t bytes)
{
    free(substitute);
    atomic_fetch_sub(&memory->substitute_bytes, bytes);
}
