/*
 * reader — the reader thread's state: plans ahead and keeps reads in flight.
 *
 *     plan -> slot: items, pieces, chunks -> io queue -> decode pool
 *
 * Files: read_ahead.c begins micro-batches, read_plan.c turns one into reads, read_stage.c issues
 * and completes reads, inline_decode.c decodes cached samples on the reader's thread.
 *
 * At most ahead_max micro-batches are begun and not yet taken. It starts small and doubles whenever
 * it proved too small: workers were idle because the reader held back, and then the consumer had to
 * wait or polled in vain. While undecoded samples come from the page cache, the limit is
 * ahead_inline.
 *
 * The loader's mutex guards the fields marked G; slots.h explains why. All others belong to the
 * reader's thread.
 */
#ifndef MILLRACE_LOADER_READER_H
#define MILLRACE_LOADER_READER_H

#include "base/os/trace.h"
#include "loader/parts/shard_cache.h"
#include "loader/slots.h"

#include <pthread.h>

enum {
    LOADER_QUEUE_DEPTH = 256, /* reads in flight */
    /* Pieces closer than this are read together if the arena has room for the gaps, in reads of at
     * most LOADER_CHUNK_BYTES_MAX or a quarter of the arena. */
    LOADER_MERGE_GAP_BYTES = 64 << 10,
    LOADER_CHUNK_BYTES_MAX = 1 << 20,
};

/* Why the reader is blocked. */
enum load_block { LOAD_RUNNING, LOAD_NO_SLOT, LOAD_NO_SPACE, LOAD_DONE };

struct reader {
    /* Immutable after open. */
    uint32_t ahead_inline; /* at most ahead_max; see inline_decode.c */
    uint64_t merge_gap_bytes, chunk_bytes_max;
    unsigned flags; /* of its requests: enum io_request_flags */
    pthread_t thread;
    bool is_started;
    struct trace_track *track; /* NULL: no trace */

    struct sampler *sampler;
    struct plan plan;
    struct io_queue *queue;
    struct io_request **reaped; /* LOADER_QUEUE_DEPTH */
    uint32_t in_flight;
    bool has_failed;     /* waiting for reads */
    uint64_t frees_seen; /* memory_frees_count when the arena was last full */

    pthread_cond_t wake;   /* one waiter */
    bool waits;            /* G */
    enum load_block block; /* G */
    bool plan_ended;       /* G: the reader will plan no more */
    uint32_t ahead_max;    /* G: at most slots_count */
    /* G: bytes of reads that completed at submission, since the last one that did not */
    uint64_t inline_bytes;
    /* G: a worker was idle while ahead_max held the reader back, and the consumer has not lacked a
     * batch since */
    bool is_starved;
    /* G: loader.released when the next micro-batch lacked files, and the share of files in which it
     * did; UINT64_MAX: it did not */
    uint64_t released_short;
    enum open_files_share share_short;
};

/* Opens the io queue and starts the thread; needs the decode pool and the memory budget. */
int reader_open(struct loader *loader, struct err *err);
/* Cancels reads in flight, which must happen before their memory is freed. The thread has ended. */
void reader_close(struct loader *loader);

/* Need the loader's mutex. Wakes the reader if it waits for memory. */
void reader_wake(struct reader *reader);
/* Batches were taken or released, or ahead_max grew: unblocks the reader if it waited for that. */
void reader_note_slots(struct loader *loader);
/* A worker is idle; notes whether the reason is the read-ahead limit. */
void reader_note_idle(struct loader *loader);
/* The run ends at this slot. */
void reader_end_run(struct loader *loader, struct load_slot *slot, const struct err *why);
/* A new micro-batch may begin: a slot is free, ahead_max is not reached, and files are left. */
bool reader_may_begin(const struct loader *loader);

/* Begins the next micro-batch. NULL: no slot is free, everything is planned, or beginning it failed
 * and the run ends. */
struct load_slot *reader_begin_slot(struct loader *loader);

/* Looks up the slot's items, at positions first, first + stride, ..., and plans its reads. share
 * limits the files for shards. Bad samples are noted; failures not caused by the data (memory,
 * files) are returned. */
int read_plan_slot(struct loader *loader, struct load_slot *slot, uint64_t first, uint64_t stride,
                   enum open_files_share share, struct err *err);

/* Inline decoding (inline_decode.c), LOADER_BYTES only. All but the last need the loader's mutex:
 * all recent reads completed at submission. */
bool inline_decode_is_steady(const struct reader *reader);
/* The most bytes to submit together, and the largest gap between pieces merged into one read. */
uint64_t inline_decode_slice_bytes(const struct reader *reader);
uint64_t inline_decode_gap_bytes(const struct reader *reader);
/* Records that `bytes` were submitted, and whether all of them have already completed. */
void inline_decode_note(struct reader *reader, uint64_t bytes, bool all_completed);
/* In the steady state, decodes all waiting items. */
void inline_decode_run(struct loader *loader);

#endif
