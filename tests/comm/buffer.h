/*
 * buffer — a pair of buffers for operations that take device memory: one on the device and a pinned
 * one on the host. Without a device, both are the same memory.
 *
 *     struct buffer buffer = buffer_open(bytes);
 *     ... buffer.host ...
 *     buffer_upload(&buffer);
 *     ... run an operation on buffer.memory with options.stream = buffer.stream, and wait ...
 *     buffer_download(&buffer);
 *     ... buffer.host ...
 *     buffer_close(&buffer);
 *
 * Each thread has its own stream. Freeing memory waits for the whole device, and thus for data that
 * ranks in other threads have not sent yet. Concurrent threads therefore take buffers from an
 * arena, which is opened before they start and closed after they end.
 */
#ifndef MILLRACE_TESTS_COMM_BUFFER_H
#define MILLRACE_TESTS_COMM_BUFFER_H

#include "device/device.h"

#include <stddef.h>

/* NULL: no device. */
extern struct device *buffer_device;

struct buffer {
    unsigned char *host, *memory; /* at least one byte */
    size_t bytes;
    struct device_stream *stream; /* the calling thread's stream; NULL without a device */
};

struct buffer_arena {
    unsigned char *host, *memory;
    size_t bytes, used;
};

struct buffer buffer_open(size_t bytes);
/* Queues the copy without waiting for it: the operation that follows must wait. */
void buffer_upload(const struct buffer *buffer);
void buffer_download(const struct buffer *buffer);
/* Resets the arena if one is in use: close all of an operation's buffers together. */
void buffer_close(const struct buffer *buffer);

void buffer_open_arena(struct buffer_arena *arena);
void buffer_close_arena(const struct buffer_arena *arena);
/* Makes the calling thread allocate its buffers from the arena. */
void buffer_use_arena(struct buffer_arena *arena);
/* Releases the calling thread's device resources. */
void buffer_release_thread(void);

#endif
