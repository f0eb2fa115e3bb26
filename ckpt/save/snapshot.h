/*
 * snapshot — the bytes of a file image as they were when the save began, while their owner goes on
 * changing them.
 *
 * Copy before update: arrays change only after snapshot_before_update(group), so the writer takes
 * blocks from where they lie, and what it has not reached when a group's update comes is copied to
 * staging by the caller. The states of a block:
 *
 *     PENDING --writer--> TAKING --> TAKEN                       in a buffer of the writer
 *     PENDING --caller or writer--> COPYING --> STAGED           in a buffer that waits for it
 *                                               STAGED --writer--> TAKEN
 *
 * While the disk has all the writes that it can use, the writer stages ahead
 * (snapshot_stage_ahead), so that the caller, when its update comes, finds done what staging has
 * room for. Both take pending blocks in the order of updates, and first what the caller waits for.
 *
 * On a device both copy by queueing (staging.h): from STAGED and TAKEN on the copy is queued, and
 * only the writer waits for it.
 *
 * While the caller waits for the end of the save nothing changes: a block that lies in one array is
 * then TAKEN where it lies, and written from there; the buffer that it has is but its token.
 *
 * Invariants
 *   1. Bytes of a group change only while every block that holds some of them is STAGED or TAKEN,
 *      and copied: before_update returns no sooner, or makes the caller's stream wait where the
 *      update is queued. A block that several groups share is copied whole by the first of them;
 *      the others' bytes are still those of the save, since their own before_update would have
 *      copied the block.
 *   2. A buffer has one holder at a time: the free list, who copies into it, the queue of staged
 *      ones, or the writer.
 *   3. Nobody waits for ever. The caller leaves the last free buffer to the writer. When the caller
 *      waits for a buffer, at most one is free, it copies none itself, so all others are staged or
 *      with the writer, who takes staged ones before pending ones, needs nothing more for writing
 *      them, and gives each back when it is written. When the writer waits, it writes nothing and
 *      nothing is staged, so the caller is copying, which waits for nobody. Copies of the device
 *      wait for nothing that is queued. A failed save ends the waiting.
 *   4. No copy is in progress after snapshot_end, so that the next save may use every buffer.
 *
 * Threads: begin and before_update from the caller, the rest from the writer; all state below the
 * mutex is guarded by it.
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

/* Of all saves. */
struct snapshot_stats {
    uint64_t copied_bytes;       /* by the caller */
    uint64_t ahead_bytes;        /* by the writer, in snapshot_stage_ahead */
    uint64_t buffer_waits_count; /* blocks for which it waited for a buffer */
};

struct snapshot {
    const struct layout *layout; /* immutable after init, as both below */
    struct staging staging;
    unsigned buffers_count;
    unsigned in_place_align; /* the writer's, 0: no block is taken where it lies */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint8_t *state;     /* [blocks_count] */
    uint64_t *block_of; /* [buffers_count] */
    const char **
        /* [buffers_count] the buffer's own, or where the block lies; the writer's while it holds
         * the buffer */
        bytes;
    unsigned *free_list, free_count;
    unsigned *staged, staged_first, staged_count; /* a ring */
    uint64_t next_pending;                        /* of layout->order: none before it is PENDING */
    uint64_t wanted;           /* what the caller waits for, UINT64_MAX: nothing */
    uint64_t left_count;       /* blocks that the writer has not taken */
    uint64_t uncaptured_count; /* blocks that are neither STAGED nor TAKEN */
    unsigned copying_count;
    bool active;   /* between begin and end */
    bool is_quiet; /* the caller waits for the end */
    int status;    /* of the save: not 0: the caller need not copy any more */
    struct err detail;
    struct snapshot_stats stats;
};

/* Buffers for so many bytes of staging, no more than the image can use. -EINVAL where that is too
 * few. */
int snapshot_count_buffers(const struct layout *layout, uint64_t staging_bytes, unsigned *ret_count,
                           struct err *err);
/* Allocates all there is. -ENOMEM. */
int snapshot_init(struct snapshot *snapshot, const struct layout *layout, struct device *device,
                  struct device_stream *updates, unsigned buffers_count, struct err *err);
void snapshot_deinit(struct snapshot *snapshot);

/* The caller: the image is what the arrays hold now. Nothing is in progress. Takes what other ranks
 * write of the arrays (consolidated.h). A device that fails ends as snapshot_fail. */
void snapshot_begin(struct snapshot *snapshot);
/* Waits only where staging is full, and without a stream of updates for the copies. A device that
 * fails ends as snapshot_fail. */
void snapshot_before_update(struct snapshot *snapshot, uint32_t group);
/* The caller: no array changes before the save in progress has ended. */
void snapshot_freeze(struct snapshot *snapshot);
/* Any thread. */
struct snapshot_stats snapshot_stats(struct snapshot *snapshot);

/* The writer, before it takes: until the boundary bytes taken at begin can be sent. A copy that
 * failed ends as snapshot_fail. */
void snapshot_await_boundary(struct snapshot *snapshot);

enum snapshot_next {
    SNAPSHOT_GOT,   /* a block lies in the buffer, which the writer now holds */
    SNAPSHOT_LATER, /* nothing now: no buffer, or the caller is copying */
    SNAPSHOT_ALL,   /* the writer has had every block */
};
/* The writer: the next block to write, staged ones first, once what it needs of other ranks has
 * arrived. Blocks only until it is copied. A copy that fails ends as snapshot_fail. */
enum snapshot_next snapshot_take(struct snapshot *snapshot, unsigned *ret_buffer,
                                 uint64_t *ret_block);
/* The writer, who has no use for a block now: copies the next pending one to staging, as the caller
 * would have to before its update. False: none is left, there is no room, or it will be taken where
 * it lies. */
bool snapshot_stage_ahead(struct snapshot *snapshot);
/* The bytes of the block that the buffer was taken with, with zeros behind the file's end up to a
 * multiple of IO_ALIGN_BYTES. Not to be written to. */
const char *snapshot_bytes(const struct snapshot *snapshot, unsigned buffer);
/* The writer, before it takes: blocks may be taken where they lie if they are aligned to so many
 * bytes. 0: never. */
void snapshot_allow_in_place(struct snapshot *snapshot, unsigned align_bytes);
void snapshot_release(struct snapshot *snapshot, unsigned buffer);
void snapshot_wait(struct snapshot *snapshot); /* until the caller has copied a block */
void snapshot_fail(struct snapshot *snapshot, int status,
                   const struct err *detail); /* the first failure counts */
int snapshot_status(struct snapshot *snapshot, struct err *err);
/* The writer holds no buffer any more. Waits for copies by the caller, and for those of a failed
 * save that are queued. */
void snapshot_end(struct snapshot *snapshot);

#endif
