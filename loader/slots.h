/*
 * slots — micro-batches in preparation: items, and the pieces of their samples.
 *
 * A slot holds a micro-batch during assembly and while the consumer uses it. Its owner changes
 * under the loader's mutex:
 *
 *     reader       until an item has all its bytes
 *     worker       an item, until it is finished (also the reader, when it decodes inline)
 *     consumer     from delivery to release
 *
 * The loader's mutex guards fields marked G, which several owners use. One mutex serves all
 * slots and stage queues because each step changes both: a completed read makes an item ready, a
 * decoded item completes a slot, and a completed slot wakes the consumer. The reader also needs
 * a consistent view of all of them to detect that it is stuck.
 */
#ifndef MILLRACE_LOADER_SLOTS_H
#define MILLRACE_LOADER_SLOTS_H

#include "loader/batch_memory.h"
#include "loader/chunks.h"
#include "loader/loader.h"
#include "loader/parts/plan.h"
#include "loader/ragged.h"

#include <stdatomic.h>

enum {
    LOADER_SLOTS_MAX = 64,
    LOADER_SLOTS_MIN = 2,
    LOADER_MICRO_MAX = 1 << 19, /* counts of pieces and slots must fit in 32 bits */
    LOADER_REASON_BYTES = 192,
};

/* The loader's part of a batch_item. */
struct load_item {
    struct sample_location location;
    struct shard *shard; /* in use until release; NULL: cannot be opened */
    /* LOADER_BYTES: shard of the substitute, in use until release, and data to which the batch
     * points */
    struct shard *substitute_shard;
    uint64_t substitute_shard_number;
    uint8_t *substitute_data;
    uint64_t substitute_bytes;
    uint32_t pieces_count;
    uint32_t pieces_left; /* G: pieces not yet read */
    bool is_bad;
    bool has_failed; /* read error, which ends the run */
    uint64_t substitute;
    int64_t bad_offset;
    char reason[LOADER_REASON_BYTES];
};

struct load_slot {
    struct batch batch;
    struct plan_micro micro;
    uint64_t set_digest, sequence_digest; /* digests over the items */
    /* G: of the fields; NULL before the first item is decoded and after release */
    struct batch_memory *memories[BATCH_MEMORY_KINDS];
    /* G: of options.fields, from the plan to release, else NULL */
    struct batch_memory *ragged[LOADER_FIELDS_MAX];
    struct ragged_place *places;      /* fields_count per item; ragged_place */
    atomic_uint_least32_t references; /* of the batch, once it is delivered */
    struct batch_item *items;
    struct batch_bytes *bytes; /* LOADER_BYTES: pieces_max per item */
    struct load_item *load_items;
    struct load_piece *pieces;            /* pieces_max per item */
    uint32_t pieces_left;                 /* G: not yet read */
    uint32_t items_left;                  /* G: not yet decoded */
    uint64_t read_done_ns;                /* G: arrival time of the last bytes; 0: not yet */
    atomic_uint_least32_t shards_awaited; /* shards that workers are opening for substitutes */
    bool is_ready;                        /* G */
    bool is_released;                     /* G: before an earlier micro-batch */
    uint32_t failed_item;                 /* G: first item with a fatal failure, or UINT32_MAX */
    struct err err;                       /* G: for failed_item or the whole slot */
};

/* Allocates the lists of a zeroed slot, for options.batching.micro items. Call slot_close even
 * after a failure. -ENOMEM. */
int slot_open(const struct loader *loader, struct load_slot *slot, struct err *err);
void slot_close(struct load_slot *slot); /* safe on a zeroed slot */
/* Sets up the items, without memories (slot_acquire_memory). */
void slot_begin(struct load_slot *slot, const struct plan_micro *micro, uint32_t items_count);
/* Releases shards and the memory of substitutes. */
void slot_clear(struct loader *loader, struct load_slot *slot);
/* Requires the loader's mutex. Releases the chunks of the item's pieces. */
void slot_release_chunks(struct loader *loader, struct load_slot *slot, uint32_t item);
/* Both require the loader's mutex. slot_acquire_memory, for all fields but ragged ones, does
 * nothing if the slot has its memories. */
void slot_acquire_memory(struct loader *loader, struct load_slot *slot);
void slot_release_memory(struct load_slot *slot);
/* Waits until the memories may be written. */
int slot_wait_for_memory(const struct load_slot *slot, struct err *err);
/* Sets the item's "valid", if the batch has that field. */
void slot_store_valid(const struct loader *loader, struct load_slot *slot, uint32_t item);
void slot_note_bad(struct load_slot *slot, uint32_t item, const struct err *why);
/* Requires the loader's mutex. Ends the run at this item, unless it ends at an earlier one. */
void slot_fail(struct load_slot *slot, uint32_t item, const struct err *why);
/* Requires the loader's mutex. */
void slot_set_ready(struct loader *loader, struct load_slot *slot);
/* Like slot_set_ready, but if it returns true, the caller must signal consumer.wake, preferably
 * after unlocking, so that the consumer does not wait for the mutex. */
bool slot_note_ready(struct loader *loader, struct load_slot *slot)
    __attribute__((warn_unused_result));

#endif
