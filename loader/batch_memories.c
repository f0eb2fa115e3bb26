/*
 * batch_memories — see batch_memory.h and, for the caller's side, loader.h.
 */
#include "loader/state.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

int batch_data_alloc(const struct loader *loader, uint64_t bytes, uint8_t **ret_data,
                     struct err *err)
{
    struct device *device = loader->device;
    void *data = NULL;
    int status = 0;
    if (!loader->is_for_samples)
        status =
            device->ops->mem_alloc(device, mem_for(MEM_PINNED, MEM_FOR_LOADER), bytes, &data, err);
    else if (posix_memalign(&data, RAGGED_ALIGN_BYTES, bytes))
        status = err_set(err, -ENOMEM, "out of memory for a sample of %" PRIu64 " bytes", bytes);
    if (!status)
        *ret_data = data;
    return status;
}

void batch_data_free(const struct loader *loader, uint8_t *data, uint64_t bytes)
{
    if (loader->is_for_samples)
        free(data);
    else
        loader->device->ops->mem_free(loader->device, mem_for(MEM_PINNED, MEM_FOR_LOADER), data,
                                      bytes);
}

static int open_memory(struct loader *loader, enum batch_memory_kind kind,
                       struct batch_memory **ret_memory, struct err *err)
{
    struct batch_memory *memory = calloc(1, sizeof *memory);
    uint8_t *data = NULL;
    if (!memory)
        return err_set(err, -ENOMEM, "out of memory for a batch");
    int status = batch_data_alloc(loader, loader->memories[kind].bytes, &data, err);
    if (status) {
        free(memory);
        return status;
    }
    *memory = (struct batch_memory){.loader = loader, .kind = kind, .data = data};
    *ret_memory = memory;
    return 0;
}

static void close_memory(struct batch_memory *memory)
{
    const struct loader *loader = memory->loader;
    struct device *device = loader->device;
    batch_memory_wait(memory, NULL);
    if (memory->last_use)
        device->ops->event_close(device, memory->last_use);
    batch_data_free(loader, memory->data, loader->memories[memory->kind].bytes);
    free(memory);
}

static void put_free(struct batch_memory *memory)
{
    struct batch_memories *memories = &memory->loader->memories[memory->kind];
    memory->next = memories->free;
    memories->free = memory;
}

int batch_memories_open(struct loader *loader, const uint64_t bytes[BATCH_MEMORY_KINDS],
                        uint32_t count, struct err *err)
{
    int status = 0;
    for (uint32_t kind = 0; kind < BATCH_MEMORY_KINDS; kind++) {
        struct batch_memories *memories = &loader->memories[kind];
        memories->bytes = bytes[kind];
        for (uint32_t i = 0; !status && memories->bytes > 0 && i < count; i++) {
            struct batch_memory *memory = NULL;
            status = open_memory(loader, kind, &memory, err);
            if (status)
                break;
            memories->count++;
            put_free(memory);
        }
    }
    return status;
}

void batch_memories_free(struct loader *loader)
{
    for (uint32_t kind = 0; kind < BATCH_MEMORY_KINDS; kind++) {
        struct batch_memories *memories = &loader->memories[kind];
        while (memories->free) {
            struct batch_memory *memory = memories->free;
            memories->free = memory->next;
            memories->count--;
            close_memory(memory);
        }
    }
}

static bool is_available(const struct batch_memories *memories)
{
    return memories->bytes == 0 ||
           memories->used_count + memories->reserved_count < memories->count;
}

bool batch_memories_are_available(const struct loader *loader)
{
    return is_available(&loader->memories[BATCH_MEMORY_LARGE]) &&
           is_available(&loader->memories[BATCH_MEMORY_SMALL]);
}

void batch_memories_reserve(struct loader *loader)
{
    for (uint32_t kind = 0; kind < BATCH_MEMORY_KINDS; kind++) {
        struct batch_memories *memories = &loader->memories[kind];
        assert(is_available(memories));
        memories->reserved_count += memories->bytes > 0;
    }
}

struct batch_memory *batch_memory_acquire(struct loader *loader, enum batch_memory_kind kind)
{
    struct batch_memories *memories = &loader->memories[kind];
    struct batch_memory *memory = memories->free;
    if (memories->bytes == 0)
        return NULL;
    assert(memory && memories->reserved_count > 0);
    memories->free = memory->next;
    memories->reserved_count--;
    memories->used_count++;
    memory->references = 1;
    return memory;
}

void batch_memory_unref(struct batch_memory *memory)
{
    if (!memory)
        return;
    assert(memory->references > 0);
    if (--memory->references > 0)
        return;
    if (memory->kind == BATCH_MEMORY_RAGGED) {
        ragged_free(memory);
        return;
    }
    struct batch_memories *memories = &memory->loader->memories[memory->kind];
    memories->used_count--;
    if (memory->loader->is_for_samples) {
        memories->count--;
        close_memory(memory);
    } else {
        put_free(memory);
    }
}

int batch_memories_grow(struct loader *loader, struct err *err)
{
    int status = 0;
    for (uint32_t kind = 0; !status && kind < BATCH_MEMORY_KINDS; kind++) {
        struct batch_memories *memories = &loader->memories[kind];
        struct batch_memory *memory = NULL;
        pthread_mutex_lock(&loader->mutex);
        bool is_enough = is_available(memories);
        pthread_mutex_unlock(&loader->mutex);
        status = is_enough ? 0 : open_memory(loader, kind, &memory, err);
        if (status || is_enough)
            continue;
        pthread_mutex_lock(&loader->mutex);
        memories->count++;
        put_free(memory);
        pthread_mutex_unlock(&loader->mutex);
    }
    return status;
}

int batch_memory_wait(const struct batch_memory *memory, struct err *err)
{
    struct device *device = memory->loader->device;
    return memory->last_use ? device->ops->event_wait(device, memory->last_use, err) : 0;
}

/* ---- The caller's side. ---- */

struct batch_memory *batch_field_retain(const struct batch_field *field)
{
    struct batch_memory *memory = field->memory;
    if (!memory)
        return NULL;
    pthread_mutex_lock(&memory->loader->mutex);
    memory->references++;
    pthread_mutex_unlock(&memory->loader->mutex);
    return memory;
}

/* Extends the last use by what is queued on the stream. */
static int record_use(struct batch_memory *memory, struct device_stream *stream, struct err *err)
{
    struct device *device = memory->loader->device;
    int status = memory->last_use
                     ? device->ops->stream_wait_event(device, stream, memory->last_use, err)
                     : device->ops->event_open(device, &memory->last_use, err);
    return status ? status : device->ops->event_record(device, memory->last_use, stream, err);
}

int batch_memory_record_stream(struct batch_memory *memory, struct device_stream *stream,
                               struct err *err)
{
    if (!memory)
        return 0;
    pthread_mutex_lock(&memory->loader->mutex);
    int status = record_use(memory, stream, err);
    pthread_mutex_unlock(&memory->loader->mutex);
    return status;
}

void batch_memory_release(struct batch_memory *memory)
{
    if (!memory)
        return;
    struct loader *loader = memory->loader;
    pthread_mutex_lock(&loader->mutex);
    batch_memory_unref(memory);
    loader_note_release(loader);
    loader_unlock_after_release(loader);
}
