/*
 * buffer — see buffer.h.
 */
#include "tests/comm/buffer.h"

#include "tests/support/test.h"

#include <stdlib.h>

struct device *buffer_device;

/* One per thread. */
static _Thread_local struct device_stream *own_stream;
static _Thread_local struct buffer_arena *own_arena; /* NULL: none */

static void allocate_memory(size_t bytes, unsigned char **ret_host, unsigned char **ret_memory)
{
    const struct device_ops *ops = buffer_device->ops;
    struct err err = {0};
    assert_ok(ops->mem_alloc(buffer_device, MEM_PINNED, bytes, (void **)ret_host, &err), &err);
    assert_ok(ops->mem_alloc(buffer_device, MEM_DEVICE, bytes, (void **)ret_memory, &err), &err);
}

static void free_memory(unsigned char *host, unsigned char *memory, size_t bytes)
{
    buffer_device->ops->mem_free(buffer_device, MEM_DEVICE, memory, bytes);
    buffer_device->ops->mem_free(buffer_device, MEM_PINNED, host, bytes);
}

struct buffer buffer_open(size_t bytes)
{
    struct buffer buffer = {.bytes = bytes + 1};
    struct err err = {0};
    if (!buffer_device) {
        buffer.host = buffer.memory = calloc(1, buffer.bytes);
        assert_non_null(buffer.host);
        return buffer;
    }
    if (!own_stream)
        assert_ok(buffer_device->ops->stream_open(buffer_device, &own_stream, &err), &err);
    buffer.stream = own_stream;
    if (!own_arena) {
        allocate_memory(buffer.bytes, &buffer.host, &buffer.memory);
        return buffer;
    }
    buffer.host = own_arena->host + own_arena->used;
    buffer.memory = own_arena->memory + own_arena->used;
    own_arena->used += buffer.bytes + 256 - buffer.bytes % 256;
    assert_true(own_arena->used <= own_arena->bytes);
    return buffer;
}

void buffer_upload(const struct buffer *buffer)
{
    struct err err = {0};
    if (buffer_device)
        assert_ok(buffer_device->ops->copy(buffer_device, buffer->stream, buffer->memory,
                                           buffer->host, buffer->bytes, &err),
                  &err);
}

void buffer_download(const struct buffer *buffer)
{
    struct err err = {0};
    if (!buffer_device)
        return;
    assert_ok(buffer_device->ops->copy(buffer_device, buffer->stream, buffer->host, buffer->memory,
                                       buffer->bytes, &err),
              &err);
    assert_ok(buffer_device->ops->stream_sync(buffer_device, buffer->stream, &err), &err);
}

void buffer_close(const struct buffer *buffer)
{
    if (!buffer_device)
        free(buffer->host);
    else if (own_arena)
        own_arena->used = 0;
    else
        free_memory(buffer->host, buffer->memory, buffer->bytes);
}

void buffer_open_arena(struct buffer_arena *arena)
{
    *arena = (struct buffer_arena){.bytes = 8 << 20};
    if (buffer_device)
        allocate_memory(arena->bytes, &arena->host, &arena->memory);
}

void buffer_close_arena(const struct buffer_arena *arena)
{
    if (buffer_device)
        free_memory(arena->host, arena->memory, arena->bytes);
}

void buffer_use_arena(struct buffer_arena *arena)
{
    own_arena = arena;
}

void buffer_release_thread(void)
{
    if (own_stream)
        buffer_device->ops->stream_close(buffer_device, own_stream);
    own_stream = NULL;
}
