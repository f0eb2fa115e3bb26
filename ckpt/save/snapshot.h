/*
 * snapshot — keeps the bytes of a file image as they were when the save began, while their owner
 * keeps changing them.
 *
 * Copy before update: arrays change only after snapshot_before_update(group). So the writer takes
 * blocks from the arrays, and the caller copies to staging what the writer has not reached when a
 * group's update comes. The states of a block:
 *
 *     PENDING --writer--> TAKING --> TAKEN                       in a buffer of the writer
 *     PENDING --caller or writer--> COPYING --> STAGED           in a buffer that waits for it
 *                                               STAGED --writer--> TAKEN
 *
 * While the disk has enough writes, the writer stages ahead (snapshot_stage_ahead), so that the
 * caller's next update finds as much staged as there is space for. Both take pending blocks in the
 * order of updates, but first the one that the caller waits for.
 *
 * On a device both queue their copies (staging.h): from STAGED and TAKEN on the copy is queued, and
 * only the writer waits for it.
 *
 * While the caller waits for the end of the save, nothing changes. A block that lies in one array
 * is then TAKEN and written in place; its buffer is only a token.
 *
 * Invariants
 *   1. A group's bytes change only after every block with some of them is STAGED or TAKEN, and
 *      copied: before_update returns no earlier, or makes the caller's stream wait if the update is
 *      queued. A block of several groups is copied whole by the first of them; the others' bytes
 *      are still those of the save, since their own before_update would have copied the block.
 *   2. A buffer has one holder at a time: the free list, the thread that copies into it, the queue
 *      of staged ones, or the writer.
 *   3. No thread waits forever. The caller leaves the last free buffer to the writer. When the
 *      caller waits for a buffer, at most one is free and the caller copies none, so all others are
 *      staged or with the writer. The writer takes staged blocks before pending ones, needs nothing
 *      else to write them, and releases each when it is written. When the writer waits, it writes
 *      nothing and nothing is staged, so the caller is copying, which waits for nothing. Device
 *      copies wait for nothing that is queued. A failed save ends all waits.
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
    SNAPSHOT_RESERVE = 1 /* buffers that the caller leaves to the writer */
};

/* Totals of all saves. */
struct snapshot_stats {
    uint64_t copied_bytes;       /* by the caller */
    uint64_t ahead_bytes;        /* by the writer, in snapshot_stage_ahead */
    uint64_t buffer_waits_count; /* blocks for which the caller waited for a buffer */
};

struct snapshot {
    const struct layout *layout; /* immutable after init, as the next two */
    struct staging staging;
    unsigned buffers_count;
    unsigned in_place_align; /* the writer's; 0: no block is taken in place */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint8_t *state;     /* [blocks_count] */
    uint64_t *block_of; /* [buffers_count] */
    /* [buffers_count] The buffer's memory, or the block in place; the writer's while it holds the
     * buffer. */
    const char **bytes;
    unsigned *free_list, free_count;
    unsigned *staged, staged_first, staged_count; /* a ring */
    uint64_t next_pending;     /* index in layout->order; none before it is PENDING */
    uint64_t wanted;           /* the block that the caller waits for; UINT64_MAX: none */
    uint64_t left_count;       /* blocks that the writer has not taken */
    uint64_t uncaptured_count; /* blocks that are neither STAGED nor TAKEN */
    unsigned copying_count;
    bool active;    /* between begin and end */
    bool is_frozen; /* the caller waits for the end */
    int status;     /* of the save; if not 0, the caller need not copy any more */
    struct err detail;
    struct snapshot_stats stats;
};

/* The number of buffers in staging_bytes, no more than the image can use. -EINVAL if too few. */
int snapshot_count_buffers(const struct layout *layout, uint64_t staging_bytes, unsigned *ret_count,
                           struct err *err);
/* Allocates all memory. -ENOMEM. */
int snapshot_init(struct snapshot *snapshot, const struct layout *layout, struct device *device,
                  struct device_stream *updates, unsigned buffers_count, struct err *err);
void snapshot_deinit(struct snapshot *snapshot);

/* The caller: the image is what the arrays hold now. No save is in progress. Copies what other
 * ranks write of the arrays (consolidated.h). A device failure acts like snapshot_fail. */
void snapshot_begin(struct snapshot *snapshot);
/* Waits only if staging is full, and, without an updates stream, for the copies. A device failure
 * acts like snapshot_fail. */
void snapshot_before_update(struct snapshot *snapshot, uint32_t group);
/* The caller: no array changes before the save in progress ends. */
void snapshot_freeze(struct snapshot *snapshot);
/* Any thread. */
struct snapshot_stats snapshot_stats(struct snapshot *snapshot);

/* The writer, before it takes: waits until the boundary bytes copied at begin can be sent. A failed
 * copy acts like snapshot_fail. */
void snapshot_await_boundary(struct snapshot *snapshot);

enum snapshot_next {
    SNAPSHOT_TAKEN, /* a block is in the buffer, which the writer now holds */
    SNAPSHOT_AGAIN, /* nothing now: no buffer is free, or the caller is copying */
    SNAPSHOT_DONE,  /* the writer has taken every block */
};
/* The writer: takes the next block to write, staged ones first. Bytes from other ranks must have
 * arrived. Blocks only until the block is copied. A failed copy acts like snapshot_fail. */
enum snapshot_next snapshot_take(struct snapshot *snapshot, unsigned *ret_buffer,
                                 uint64_t *ret_block);
/* The writer, when it has no use for a block: copies the next pending one to staging, as the caller
 * would before its update. False: none is left, no buffer is free, or the block will be taken in
 * place. */
bool snapshot_stage_ahead(struct snapshot *snapshot);
/* The bytes of the block that was taken with the buffer, zero-padded beyond the file's end to a
 * multiple of IO_ALIGN_BYTES. */
const char *snapshot_bytes(const struct snapshot *snapshot, unsigned buffer);
/* The writer, before it takes: blocks may be taken in place if aligned to align_bytes. 0: never. */
void snapshot_allow_in_place(struct snapshot *snapshot, unsigned align_bytes);
void snapshot_release(struct snapshot *snapshot, unsigned buffer);
void snapshot_wait(struct snapshot *snapshot); /* until the caller has copied a block */
/* Keeps only the first failure. */
void snapshot_fail(struct snapshot *snapshot, int status, const struct err *detail);
int snapshot_status(struct snapshot *snapshot, struct err *err);
/* The writer no longer holds a buffer. Waits for the caller's copies, and for those that a failed
 * save has queued. */
void snapshot_end(struct snapshot *snapshot);

#endif
