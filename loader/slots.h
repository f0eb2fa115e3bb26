/*
 * slots — micro-batches in the making: items, the pieces of their samples, and the reads (chunks)
 * that fetch the pieces.
 *
 * A slot holds a micro-batch while it is assembled, then while the consumer uses it. Its owner
 * changes under the loader's mutex:
 *
 *     reader       from when the slot is free until an item has all its bytes
 *     worker       an item, from when it is taken from the decode pool until it is finished
 *                  (also the reader, when it decodes inline)
 *     consumer     from delivery to release
 *
 * G marks fields that several of them use at the same time; the loader's mutex guards these. One
 * mutex serves all slots and the stages' queues, because each step changes both: a completed read
 * makes an item ready to decode, a decoded item completes a slot, and a completed slot wakes the
 * consumer. The reader also needs a consistent view of all of them to detect that it is stuck.
 */
#ifndef MILLRACE_LOADER_SLOTS_H
#define MILLRACE_LOADER_SLOTS_H

#include "loader/loader.h"
#include "loader/parts/plan.h"
#include "loader/view.h"

#include <stdatomic.h>

enum {
    LOADER_SLOTS_MAX = 64,
    LOADER_SLOTS_LEAST = 2,
    LOADER_MICRO_MAX = 1 << 19, /* samples; counts of pieces and slots must fit 32 bits */
    LOADER_REASON_BYTES = 192,
};

/* One read and its destination: request.data, NULL until it has memory (memory_budget.h). */
struct load_chunk {
    struct io_request request;
    void *own_memory; /* own_bytes outside the arena; NULL: none */
    uint64_t own_bytes;
    struct load_slot *slot;
    uint32_t first_piece, pieces_count; /* in the slot's sorted list */
    uint32_t users;                     /* G: pieces whose items are not finished */
    bool is_read;                       /* G */
    uint64_t traced_ns;                 /* when it was issued; 0: not traced */
};

struct load_piece {
    struct view_piece view;
    uint32_t item, chunk;
};

/* One of the slot's pieces, sorted in read order. */
struct load_order {
    uint64_t shard, offset;
    uint32_t piece;
};

/* The loader's side of a batch_item. */
struct load_item {
    struct view_place place;
    struct shard *shard; /* in use until the slot is released; NULL: it cannot be opened */
    /* LOADER_BYTES, whose batches point into a substitute's data: its shard, in use as above, with
     * its number, and its data */
    struct shard *other;
    uint64_t other_number;
    uint8_t *owned;
    uint64_t owned_bytes;
    uint32_t pieces_count;
    uint32_t pending; /* G: pieces not yet read */
    bool is_bad;
    bool has_failed; /* a read failed, which ends the run */
    uint64_t substitute;
    int64_t bad_offset;
    char reason[LOADER_REASON_BYTES];
};

struct load_slot {
    struct batch batch;
    struct plan_micro micro;
    uint64_t once, order; /* sums over the items */
    /* G: the batch's arrays, pinned; NULL before the first item is decoded and after release */
    uint8_t *memory;
    struct batch_item *items;
    struct batch_bytes *bytes; /* LOADER_BYTES: pieces_max per item */
    struct load_item *loads;
    struct load_piece *pieces; /* pieces_max per item */
    struct load_order *sorted;
    uint32_t sorted_count;
    struct load_chunk *chunks;
    uint64_t merge_gap_bytes; /* between pieces that are read together */
    uint32_t chunks_count, chunks_issued;
    uint32_t chunks_left;                 /* G: not yet read */
    uint32_t items_left;                  /* G: not yet decoded */
    uint64_t read_done_ns;                /* G: when the last bytes arrived; 0: not yet */
    atomic_uint_least32_t shards_awaited; /* opened by workers for substitutes */
    bool is_ready;                        /* G */
    uint32_t failed_item; /* G: the first item whose failure ends the run; UINT32_MAX: none */
    struct err err;       /* G: of failed_item, or of the whole slot */
};

/* Sets up the batch's items; slot_acquire_memory adds its arrays. */
void slot_begin(struct load_slot *slot, const struct plan_micro *micro, uint32_t items_count);
/* Releases the slot's shards and the memory of substitutes. */
void slot_clear(struct loader *loader, struct load_slot *slot);
/* Need the loader's mutex: allocates the batch's arrays unless it has them; frees them. */
void slot_acquire_memory(struct loader *loader, struct load_slot *slot);
void slot_release_memory(struct loader *loader, struct load_slot *slot);
void slot_note_bad(struct load_slot *slot, uint32_t item, const struct err *why);
/* Needs the loader's mutex: the item ends the run, unless an earlier one does. */
void slot_fail(struct load_slot *slot, uint32_t item, const struct err *why);
/* Needs the loader's mutex: the slot is complete. */
void slot_set_ready(struct loader *loader, struct load_slot *slot);
/* The same, but if it returns true, the caller must signal consumer.wake, preferably after
 * unlocking the mutex, for which the consumer would otherwise wait. */
bool slot_note_ready(struct loader *loader, struct load_slot *slot)
    __attribute__((warn_unused_result));

#endif
