/*
 * buffer — what goes through an operation that takes a device's memory, where there is a device: a
 * place there, and one of the host that is pinned. Without one both are the same.
 *
 *     struct buffer buffer = buffer_open(bytes);
 *     ... buffer.host ...
 *     buffer_upload(&buffer);
 *     ... an operation on buffer.memory, options.stream = buffer.stream, and its wait ...
 *     buffer_download(&buffer);
 *     ... buffer.host ...
 *     buffer_close(&buffer);
 *
 * Threads: each has a stream of its own. Giving memory back waits for the whole device, and so
 * would wait for what another thread's ranks have not sent yet: threads that work beside others
 * take buffers from an arena, which is opened before and closed after.
 */
#ifndef MILLRACE_TESTS_COMM_BUFFER_H
#define MILLRACE_TESTS_COMM_BUFFER_H

#include "device/device.h"

#include <stddef.h>

/* NULL: there is none. */
extern struct device *buffer_device;

struct buffer {
    unsigned char *host, *memory; /* no less than a byte */
    size_t bytes;
    struct device_stream *stream; /* the calling thread's; NULL without a device */
};

struct buffer_arena {
    unsigned char *host, *memory;
    size_t bytes, used;
};

struct buffer buffer_open(size_t bytes);
/* Queues the copy, and waits for nothing: the operation after it must. */
void buffer_upload(const struct buffer *buffer);
void buffer_download(const struct buffer *buffer);
/* Of an arena: those of an operation go together. */
void buffer_close(const struct buffer *buffer);

void buffer_open_arena(struct buffer_arena *arena);
void buffer_close_arena(const struct buffer_arena *arena);
/* The calling thread's buffers are that one's. */
void buffer_use_arena(struct buffer_arena *arena);
/* Gives back what the calling thread has of the device. */
void buffer_end_thread(void);

#endif
