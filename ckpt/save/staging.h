/*
 * staging — buffers of a block each, and the ways into them from wherever the arrays lie: by the
 * processor in host memory, by the copy engine on a device.
 *
 * On a device copies are queued, and an event of the buffer tells when its bytes are there. Only
 * the writer waits for it; the caller's stream of updates waits for the copies, not the caller. Of
 * arrays in pinned memory the copy is made before the call that queues it returns (CUDA copies from
 * host to host at once): there the caller copies itself.
 *
 * Threads: two may copy at a time, each as its own `who`; who has a buffer is snapshot's to say.
 */
#ifndef MILLRACE_CKPT_SAVE_STAGING_H
#define MILLRACE_CKPT_SAVE_STAGING_H

#include "base/err.h"
#include "ckpt/format/manifest.h"
#include "ckpt/save/layout.h"
#include "device/device.h"

#include <stdint.h>

enum staging_who { STAGING_CALLER, STAGING_WRITER, STAGING_WHO_COUNT };

/* One thread's way to copy from a device that queues. */
struct staging_copier {
    struct device_stream *stream;
    struct device_event *copied; /* all that was queued on it so far */
};

/* Immutable after init. */
struct staging {
    const struct layout *layout; /* borrowed */
    struct device *device, *own; /* own: if nobody gives one, the CPU */
    struct device_stream
        *updates; /* borrowed: where the caller queues updates; NULL: they begin when it likes */
    char *memory; /* buffers_count of CKPT_BLOCK_BYTES */
    unsigned buffers_count;
    bool queues; /* the device's copies end later */
    struct device_event *
        *arrived; /* [buffers_count] where the device queues: what was last copied there is there */
    struct staging_copier copiers[STAGING_WHO_COUNT];
    struct device_event
        *boundary;         /* where the device queues: the boundary bytes are in boundary_memory */
    char *boundary_memory; /* pinned, so that the caller does not wait for these copies; NULL */
    size_t boundary_bytes;
};

/* device NULL: the arrays are in host memory. Allocates all there is. -ENOMEM. */
int staging_init(struct staging *staging, const struct layout *layout, struct device *device,
                 struct device_stream *updates, unsigned buffers_count, struct err *err);
void staging_deinit(struct staging *staging);

static inline char *staging_buffer(const struct staging *staging, unsigned buffer)
{
    return staging->memory + (size_t)buffer * CKPT_BLOCK_BYTES;
}

/* The kernel gives the buffer's memory now, which it would at its first use; what is in it stays.
 * Any thread. */
void staging_touch(const struct staging *staging, unsigned buffer);
/* The block's bytes into the buffer, but those that arrive; zeros behind them up to a multiple of
 * IO_ALIGN_BYTES. They are there after staging_await. */
int staging_copy(struct staging *staging, enum staging_who who, uint64_t block, unsigned buffer,
                 struct err *err);
/* Until what was queued for a buffer is there. */
int staging_await(struct staging *staging, unsigned buffer, struct err *err);
/* The writer, behind consolidated_exchange: what arrived of the block into a buffer that has the
 * rest. */
void staging_complete(const struct staging *staging, uint64_t block, unsigned buffer);
/* The caller: takes what other ranks write of this one's arrays (consolidated.h); it is there after
 * staging_await_boundary. */
int staging_send_boundary(struct staging *staging, struct err *err);
int staging_await_boundary(struct staging *staging, struct err *err);
/* The caller: updates come after all copies that were queued before, by waiting itself only where
 * it gives no stream. */
int staging_order(struct staging *staging, struct err *err);
/* No copy is in progress any more. */
void staging_settle(struct staging *staging);
/* Where the block lies in host memory, if it lies there in one piece, aligned so, that can be
 * written as it is; NULL. */
const char *staging_place(const struct staging *staging, uint64_t block, unsigned align_bytes);

#endif
