/*
 * snapshot — preserves a file image as it was when the save began, while the owner changes the
 * arrays.
 *
 * Copy before update: arrays change only after snapshot_before_update(group). The writer reads
 * blocks from the arrays; before a group's update the caller copies to staging what the writer has
 * not reached. The states of a block:
 *
 *     PENDING --writer--> TAKING --> TAKEN                       in a buffer of the writer
 *     PENDING --caller or writer--> COPYING --> STAGED           in a buffer, until taken
 *                                               STAGED --writer--> TAKEN
 *
 * While enough writes are in progress, the writer stages ahead (snapshot_stage_ahead). Pending
 * blocks are taken in the order of updates, but a block that the caller waits for comes first. A
 * device's copy may still be queued when its block is STAGED or TAKEN; only the writer waits for it
 * (staging.h).
 *
 * While the caller waits for the end of the save, arrays do not change. A block that lies in one
 * array is then written in place; its buffer is only a token.
 *
 * Invariants
 *   1. A group's bytes change only after all of its blocks are STAGED or TAKEN, and copied:
 *      before_update waits for that, or makes the stream of a queued update wait. The first group
 *      to be updated copies all of a shared block.
 *   2. A buffer has one holder at a time: the free list, the copying thread, the queue of staged
 *      buffers, or the writer.
 *   3. No thread waits forever. The caller leaves the last free buffer to the writer, so when the
 *      caller waits for a buffer, all others are staged or held by the writer. The writer takes
 *      staged blocks before pending ones and releases each when it is written. The writer waits
 *      only while the caller is copying, and a copy waits for nothing. Device copies do not wait
 *      for queued work. A failed save ends all waits.
 *   4. No copy is in progress after snapshot_end, so the next save may use every buffer.
 *
 * Threads: begin and before_update from the caller, the rest from the writer; the mutex guards all
 * state below it.
 */
#ifndef MILLRACE_CKPT_SAVE_SNAPSHOT_H
#define MILLRACE_CKPT_SAVE_SNAPSHOT_H

#include "base/err.h"
#include "ckpt/save/layout.h"
#include "ckpt/save/staging.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    SNAPSHOT_BUFFERS_MIN = 4,
    SNAPSHOT_RESERVED_COUNT = 1 /* buffers that only the writer may use */
};

/* Totals of all saves. */
struct snapshot_stats {
    uint64_t copied_bytes;       /* by the caller */
    uint64_t ahead_bytes;        /* by the writer, in snapshot_stage_ahead */
    uint64_t buffer_waits_count; /* blocks that made the caller wait for a buffer */
};

struct snapshot {
    const struct layout *layout; /* immutable after init, as are the next two */
    struct staging staging;
    unsigned buffers_count;
    unsigned in_place_align; /* used by the writer; 0: no block is taken in place */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint8_t *state;         /* [blocks_count] */
    uint64_t *buffer_block; /* [buffers_count] */
    /* [buffers_count] The buffer's memory, or the block in place; used by the buffer's holder. */
    const char **bytes;
    unsigned *free_list, free_count;
    unsigned *staged, staged_first, staged_count; /* a ring */
    uint64_t next_pending;  /* index in layout->update_order; none before it is PENDING */
    uint64_t awaited_block; /* UINT64_MAX: none */
    uint64_t untaken_count;
    uint64_t uncaptured_count; /* blocks neither STAGED nor TAKEN */
    unsigned copying_count;
    bool active; /* between begin and end */
    bool is_frozen;
    int status; /* if not 0, the caller stops copying */
    struct err detail;
    struct snapshot_stats stats;
};

/* Sets *ret_count to the number of buffers in staging_bytes that the image can use. -EINVAL if
 * staging_bytes is too small. */
int snapshot_count_buffers(const struct layout *layout, uint64_t staging_bytes, unsigned *ret_count,
                           struct err *err);
/* Allocates all memory. -ENOMEM. */
int snapshot_init(struct snapshot *snapshot, const struct layout *layout, struct device *device,
                  struct device_stream *updates, unsigned buffers_count, struct err *err);
void snapshot_deinit(struct snapshot *snapshot);

/* Starts a snapshot of the arrays as they are now; no save may be in progress. Copies boundary
 * bytes. A device failure acts like snapshot_fail. */
void snapshot_begin(struct snapshot *snapshot);
/* Blocks only while staging is full and, without an updates stream, for the copies. A device
 * failure acts like snapshot_fail. */
void snapshot_before_update(struct snapshot *snapshot, uint32_t group);
/* The caller promises not to change arrays until the save ends. */
void snapshot_freeze(struct snapshot *snapshot);
/* Callable from any thread. */
struct snapshot_stats snapshot_stats(struct snapshot *snapshot);

/* Waits until the boundary bytes can be sent. The writer calls it before taking blocks. A failed
 * copy acts like snapshot_fail. */
void snapshot_await_boundary(struct snapshot *snapshot);

enum snapshot_next {
    SNAPSHOT_TAKEN, /* the writer holds the block's buffer */
    SNAPSHOT_AGAIN, /* no buffer is free, or the caller is copying */
    SNAPSHOT_DONE,  /* all blocks were taken */
};
/* Takes the next block to write, staged ones first. Bytes from other ranks must have arrived.
 * Blocks only until the block is copied. A failed copy acts like snapshot_fail. */
enum snapshot_next snapshot_take(struct snapshot *snapshot, unsigned *ret_buffer,
                                 uint64_t *ret_block);
/* Stages the next pending block, as the caller would before its update. False: none is left, no
 * buffer is free, or the block will be taken in place. */
bool snapshot_stage_ahead(struct snapshot *snapshot);
/* Returns the bytes of the buffer's block, zero-padded beyond the file's end to a multiple of
 * IO_ALIGN_BYTES. */
const char *snapshot_bytes(const struct snapshot *snapshot, unsigned buffer);
/* Allows blocks aligned to align_bytes to be taken in place (0: none). Call before taking
 * blocks. */
void snapshot_allow_in_place(struct snapshot *snapshot, unsigned align_bytes);
void snapshot_release(struct snapshot *snapshot, unsigned buffer);
void snapshot_wait(struct snapshot *snapshot); /* waits until the caller has copied a block */
/* Keeps only the first failure. */
void snapshot_fail(struct snapshot *snapshot, int status, const struct err *detail);
int snapshot_status(struct snapshot *snapshot, struct err *err);
/* Waits for the caller's copies, and for those that a failed save has queued. The writer must hold
 * no buffer. */
void snapshot_end(struct snapshot *snapshot);

#endif
