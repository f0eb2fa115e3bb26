/*
 * ragged — the ragged fields of micro-batches (options.fields): their memory and their layout.
 *
 * Each field of a micro-batch has memory of its own, so that a caller can keep it by itself:
 *
 *     | offsets [items + 1] | shapes [items, item_rank] | values ...            |
 *                                                        |item 0 |item 1  |...
 *
 * Planning a micro-batch allocates its memory (ragged_alloc), because the sizes of stored fields
 * bound those of their values. Workers store each item's values in its place (ragged_store), and
 * the last one closes the gaps (ragged_finish).
 *
 * The memory comes from an arena. If that is full, the micro-batch waits until earlier ones are
 * released. If there is none to wait for, or only those that the caller holds, it gets memory from
 * the rest of the budget; if that is too small, beyond it (options.keep). The caller's memory is in
 * use until the reader's thread reclaims it, after the streams that used it
 * (batch_memory_record_stream).
 *
 * The loader's mutex guards fields marked G; the reader's thread owns all others, and after
 * loader_close, the holder of the mutex.
 */
#ifndef MILLRACE_LOADER_RAGGED_H
#define MILLRACE_LOADER_RAGGED_H

#include "loader/loader.h"
#include "loader/parts/read_arena.h"

struct load_slot;

/* Where an item's values lie among those of its field. */
struct ragged_place {
    uint64_t at, capacity_bytes;
    uint64_t bytes; /* 0 until stored */
    uint8_t *own;   /* values that take more than capacity_bytes, or NULL */
};

struct ragged_pool {
    struct read_arena arena;
    void *arena_memory;         /* pinned */
    uint32_t fields_count;      /* ragged ones of options.fields */
    struct batch_memory *idle;  /* without data, to be used again */
    struct batch_memory *freed; /* G: released by the caller, to be reclaimed */
    uint32_t used_count;        /* G: memories with references */
    uint64_t releases_count;    /* G: of batches and fields by the caller */
    uint64_t spare_bytes;       /* G: of memories from the rest of the budget */
    uint64_t beyond_bytes;      /* G: of memories beyond the budget (options.keep) */
};

enum { RAGGED_ALIGN_BYTES = 64 };

static inline bool field_is_ragged(const struct loader_field *field)
{
    return field->decode <= LOADER_FIELD_ARRAY || field->decode == LOADER_FIELD_BOXES ||
           field->decode == LOADER_FIELD_KEYPOINTS ||
           (field->decode == LOADER_FIELD_TOKENS && field->length == 0);
}

/* Dense, in the large memory. */
static inline bool field_is_large(const struct loader_field *field)
{
    return field->decode == LOADER_FIELD_LABELS || field->decode == LOADER_FIELD_IMAGE;
}

enum dtype field_dtype(const struct loader_field *field); /* field_options.c */
uint32_t ragged_item_rank(const struct loader_field *field);
/* Returns the most bytes that the values of a stored field of so many bytes take. */
uint64_t ragged_bytes_max(const struct loader_field *field, uint64_t stored_bytes);
/* Returns the memory that a micro-batch of so many items needs, with values of mean size. */
uint64_t ragged_mean_bytes(const struct loader *loader, uint64_t items);

/* Allocates the arena; 0 bytes: there is none, because no field is ragged or all of their memory is
 * beyond the budget (sample_reader.h). -ENOMEM. */
int ragged_open(struct loader *loader, uint64_t arena_bytes, struct err *err);
/* After loader_close; requires the mutex. Frees what was released, and the arena once no memory has
 * references. */
void ragged_free_unused(struct loader *loader);

/* Reclaims what the caller released; ragged_alloc does it first. */
void ragged_reclaim(struct loader *loader);
/* Allocates the memory of a slot whose items are planned, which slot_release_memory releases.
 * is_starved: no micro-batch is ahead of the consumer. may_grow: memory beyond the budget may be
 * allocated; with LOADER_KEEP_GROW, also if no other micro-batch has memory. -EAGAIN: no memory
 * until another release; -ENOBUFS: never; -ENOMEM. The detail of -EAGAIN is for a consumer that
 * waits. */
int ragged_alloc(struct loader *loader, struct load_slot *slot, bool is_starved, bool may_grow,
                 struct err *err);
/* Requires the mutex. Takes memory without references. */
void ragged_free(struct batch_memory *memory);

/* Requires the mutex. Returns the slot's part of ragged_pool.spare_bytes. */
uint64_t ragged_spare_bytes(const struct loader *loader, const struct load_slot *slot);

/* Stores an item's values of a field. shape: item_rank dimensions. Replaces what a failed
 * substitute stored. -ENOBUFS: substitutes need too much memory; -ENOMEM. */
int ragged_store(struct loader *loader, struct load_slot *slot, uint32_t item, uint32_t field,
                 const void *values, uint64_t bytes, const uint64_t *shape, struct err *err);
/* Frees the item's values that are outside the memories: those of a substitute, or of a text that
 * normalization made longer. ragged_finish does it too. */
void ragged_clear(struct loader *loader, struct load_slot *slot, uint32_t item);
/* Adds the fields to the batch once all items are decoded. Takes the mutex if some are substitutes.
 * Errors as above. */
int ragged_finish(struct loader *loader, struct load_slot *slot, struct err *err);

/* For these files. Returns where the values begin in the memory of so many items. */
uint64_t ragged_values_offset(const struct loader_field *field, uint64_t items);
/* Allocates memory that counts as that of substitutes. Takes the mutex. Errors as above. */
int ragged_alloc_for_substitutes(struct loader *loader, uint64_t bytes,
                                 struct batch_memory **ret_memory, struct err *err);

#endif
