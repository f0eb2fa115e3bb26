/*
 * staging — buffers of one block each, and the copies into them: by the CPU from host memory, by
 * the copy engine from a device.
 *
 * Device copies are queued, and an event per buffer signals their completion. Only the writer waits
 * for it; the caller's updates stream waits for the copies. The caller itself copies from pinned
 * memory, since CUDA copies host to host before the queueing call returns.
 *
 * Threads: caller and writer may copy concurrently; snapshot decides which thread holds a buffer.
 */
#ifndef MILLRACE_CKPT_SAVE_STAGING_H
#define MILLRACE_CKPT_SAVE_STAGING_H

#include "base/err.h"
#include "ckpt/format/manifest.h"
#include "ckpt/save/layout.h"
#include "device/device.h"

#include <stdint.h>

enum staging_thread { STAGING_CALLER, STAGING_WRITER, STAGING_THREADS_COUNT };

/* One thread's copies from an asynchronous device. */
struct staging_copier {
    struct device_stream *stream;
    struct device_event *copied; /* recorded after everything queued on the stream so far */
};

/* Immutable after init. */
struct staging {
    const struct layout *layout; /* borrowed */
    struct device *device, *cpu; /* cpu: opened if no device is given */
    /* Borrowed: the stream on which the caller queues updates; NULL: updates may begin at any
     * time. */
    struct device_stream *updates;
    char *memory; /* buffers_count * CKPT_BLOCK_BYTES */
    unsigned buffers_count;
    bool is_async; /* the device's copies complete later */
    /* [buffers_count] If is_async: signals that the last copy into the buffer is complete. */
    struct device_event **copied_events;
    struct staging_copier copiers[STAGING_THREADS_COUNT];
    /* If is_async: signals that the boundary bytes are in boundary_memory. */
    struct device_event *boundary_copied;
    char *boundary_memory; /* pinned, to keep the caller from waiting; or NULL */
    size_t boundary_bytes;
};

/* device: NULL for host memory. Allocates all memory. -ENOMEM. */
int staging_init(struct staging *staging, const struct layout *layout, struct device *device,
                 struct device_stream *updates, unsigned buffers_count, struct err *err);
void staging_deinit(struct staging *staging);

static inline char *staging_buffer(const struct staging *staging, unsigned buffer)
{
    return staging->memory + (size_t)buffer * CKPT_BLOCK_BYTES;
}

/* Makes the kernel allocate the buffer's memory now; keeps its contents. Any thread may call
 * it. */
void staging_prefault(const struct staging *staging, unsigned buffer);
/* Copies the block's bytes to the buffer, except those from other ranks, and zero-pads them to a
 * multiple of IO_ALIGN_BYTES. Complete after staging_await. */
int staging_copy(struct staging *staging, enum staging_thread thread, uint64_t block,
                 unsigned buffer, struct err *err);
/* Waits for the copies queued for a buffer. */
int staging_await(struct staging *staging, unsigned buffer, struct err *err);
/* Adds bytes from other ranks to the block in a buffer, after consolidated_exchange. */
void staging_add_received(const struct staging *staging, uint64_t block, unsigned buffer);
/* Copies the caller's boundary bytes (consolidated.h). Complete after staging_await_boundary. */
int staging_copy_boundary(struct staging *staging, struct err *err);
int staging_await_boundary(struct staging *staging, struct err *err);
/* Orders the caller's updates after all copies queued so far. Blocks only without an updates
 * stream. */
int staging_order_updates(struct staging *staging, struct err *err);
/* Waits until no copy is in progress. */
void staging_drain(struct staging *staging);
/* Returns the block in host memory if it is contiguous, aligned and complete there; else NULL. */
const char *staging_direct_data(const struct staging *staging, uint64_t block,
                                unsigned align_bytes);

#endif
