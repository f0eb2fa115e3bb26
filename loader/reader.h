/*
 * reader — the state of the reader thread, which plans ahead and keeps reads in flight.
 *
 *     plan -> slot: items, pieces -> chunks -> io queue -> decode pool
 *
 * Files: read_ahead.c begins micro-batches, long_read_plan.c and read_plan.c plan their reads,
 * read_stage.c issues and completes reads, inline_decode.c decodes cached samples on the reader's
 * thread.
 *
 * At most ahead_max micro-batches are begun and not yet taken. The limit starts small and doubles
 * when it has left workers idle and the consumer then had to wait. During inline decoding the limit
 * is inline_ahead_max.
 *
 * The loader's mutex guards fields marked G (see slots.h); the reader's thread owns all others.
 */
#ifndef MILLRACE_LOADER_READER_H
#define MILLRACE_LOADER_READER_H

#include "base/os/trace.h"
#include "loader/long_reads.h"
#include "loader/parts/shard_cache.h"
#include "loader/slots.h"

#include <pthread.h>

enum {
    LOADER_QUEUE_DEPTH = 256,         /* reads in flight */
    LOADER_CHUNK_BYTES_MAX = 1 << 20, /* of a read; at most a quarter of the arena */
    /* A field of at most so many bytes, with the gap before it, may extend its sample's read beyond
     * that limit. */
    LOADER_SAMPLE_GAP_BYTES = 64 << 10,
};

enum reader_state { READER_RUNNING, READER_NO_SLOT, READER_NO_SPACE, READER_DONE };

struct reader {
    /* Immutable after open. */
    uint32_t inline_ahead_max; /* at most ahead_max (inline_decode.c) */
    uint64_t chunk_bytes_max;
    unsigned flags; /* enum io_request_flags */
    bool decodes_inline;
    pthread_t thread;
    bool is_started;
    struct trace_track *track; /* or NULL */

    struct sampler *sampler;
    struct plan plan;
    struct long_reads long_reads;
    struct extent *extents; /* while reads are planned */
    uint32_t extents_count;
    struct chunk_pool chunks;
    /* Chunks to be issued, in this order: retries after errors, then those of the last
     * micro-batch. */
    struct chunk_list unissued;
    struct io_queue *queue;
    struct io_request **completed_requests; /* [LOADER_QUEUE_DEPTH] */
    uint32_t in_flight;
    bool has_failed;     /* waiting for reads in flight failed */
    uint64_t frees_seen; /* memory_frees_count when the arena was full */

    pthread_cond_t wake;     /* one waiter */
    bool is_waiting;         /* G */
    enum reader_state state; /* G */
    bool plan_ended;         /* G: nothing left to plan */
    uint32_t ahead_max;      /* G: at most slots_count */
    /* G: bytes of consecutive reads that completed at submission */
    uint64_t inline_bytes;
    /* G: ahead_max has made a worker idle since the last underrun */
    bool has_idled_worker;
    /* G: loader.releases_count when the next micro-batch ran out of files (or UINT64_MAX), and the
     * share that was too small */
    uint64_t emfile_releases;
    enum open_files_fraction emfile_share;
    /* G: ragged.releases_count when the ragged fields of the next micro-batch found no memory (or
     * UINT64_MAX), whether no micro-batch was ahead of the consumer, and whether memory beyond the
     * budget was allowed */
    uint64_t ragged_releases;
    bool ragged_was_starved, ragged_could_grow;
    /* G: set while the consumer waits and its batches hold the memory of the next read, or no more
     * can be allocated, until one is released */
    bool lacks_memory;
    struct err lacks_memory_err;
};

/* Requires the decode pool and the memory budget. */
int reader_open(struct loader *loader, struct err *err);
/* Cancels reads in flight. Call it after the thread has ended and before freeing memory. */
void reader_close(struct loader *loader);

/* This and the next five functions require the loader's mutex. Wakes a reader waiting for
 * memory. */
void reader_wake(struct reader *reader);
/* Unblocks a reader waiting for a batch to be taken or released, or for a larger ahead_max. */
void reader_unblock(struct loader *loader);
/* Notes whether the read-ahead limit made a worker idle. */
void reader_note_idle_worker(struct loader *loader);
/* Ends the run at this slot. */
void reader_end_run(struct loader *loader, struct load_slot *slot, const struct err *why);
/* True if memory beyond the budget may be allocated for the next micro-batch. */
bool reader_may_grow(const struct loader *loader);
/* True if a slot and its memories are free, the read-ahead limit is not reached, and enough files
 * can be opened, as far as is known. */
bool reader_can_begin_slot(const struct loader *loader);

/* Plans the next micro-batch. False if no slot is free, everything is planned, or an error ended
 * the run. */
bool reader_begin_slot(struct loader *loader);

/* Looks up the shard, key and pieces of an item's ref. Returns what is wrong with the sample, or a
 * failure that the data did not cause (item_failure_is_fatal). Any thread, on its own slot. */
int read_plan_item(struct loader *loader, struct load_slot *slot, uint32_t i,
                   enum open_files_fraction share, struct err *err);
/* Looks up the slot's items, at positions first, first + stride, ... share limits the open files.
 * Bad samples are noted; only other failures (memory, files) are returned. */
int read_plan_items(struct loader *loader, struct load_slot *slot, uint64_t first, uint64_t stride,
                    enum open_files_fraction share, struct err *err);
/* Plans the reads of the items that were looked up, of pieces that have none yet. Merges pieces
 * across gaps of up to gap_bytes_max, or less if their dataset's limit is smaller. */
void read_plan_chunks(struct loader *loader, struct load_slot *slot, uint64_t gap_bytes_max);

/* Inline decoding, for LOADER_BYTES only. All but inline_decode_run require the loader's mutex, or
 * to be called from the reader's thread. Cached: all recent reads completed at submission. */
bool reader_is_cached(const struct reader *reader);
bool inline_decode_is_steady(const struct reader *reader); /* cached, with LOADER_BYTES */
/* Limits on the bytes per submission and on the gap between pieces merged into one read. */
uint64_t inline_decode_slice_bytes(const struct reader *reader);
uint64_t inline_decode_gap_bytes_max(const struct reader *reader);
/* Records a submission and whether all its reads have completed. */
void inline_decode_note(struct reader *reader, uint64_t bytes, bool all_completed);
/* Decodes all queued items; for the steady state. */
void inline_decode_run(struct loader *loader);

#endif
