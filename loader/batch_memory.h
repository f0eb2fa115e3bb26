/*
 * batch_memory — the reference-counted memory of the batches' fields.
 *
 * A micro-batch has a large memory (images or tokens) and a small one (labels, weights, "valid"),
 * so that a caller can keep the small fields without the large ones. Planning a micro-batch
 * reserves its memories; the first worker that decodes one of its items acquires them. The last
 * release makes a memory available again, most recently used first, so that little of the budget is
 * touched. Those of a sample_reader are freed instead, because callers keep few or all of them.
 *
 * If the caller keeps so many that none is left for the next micro-batch, loader_next fails, or
 * more are allocated (options.keep).
 *
 * The loader's mutex guards fields marked G.
 */
#ifndef MILLRACE_LOADER_BATCH_MEMORY_H
#define MILLRACE_LOADER_BATCH_MEMORY_H

#include "loader/loader.h"

enum batch_memory_kind {
    BATCH_MEMORY_LARGE,
    BATCH_MEMORY_SMALL,
    BATCH_MEMORY_KINDS,
    BATCH_MEMORY_RAGGED = BATCH_MEMORY_KINDS, /* of one field, not pooled: ragged.h */
};

/* What a ragged field's memory counts against. */
enum batch_memory_origin {
    BATCH_MEMORY_IN_ARENA,
    BATCH_MEMORY_IN_SPARE, /* the rest of the budget (memory_budget.h) */
    BATCH_MEMORY_BEYOND_BUDGET,
    BATCH_MEMORY_OF_SUBSTITUTES,
};

struct batch_memory {
    struct loader *loader;
    enum batch_memory_kind kind;
    enum batch_memory_origin origin; /* of a ragged field's */
    uint64_t bytes;                  /* of a ragged field's */
    uint8_t *data;                   /* pinned */
    uint32_t references;             /* G */
    struct batch_memory *next;       /* G: in the list of free ones */
    /* The caller's last use, which must end before the memory is written; NULL: none recorded yet.
     * Set while the memory has references, by one of their holders at a time. */
    struct device_event *last_use;
};

struct batch_memories {
    uint64_t bytes;            /* of each; 0: this kind has no fields. Immutable. */
    struct batch_memory *free; /* G */
    uint32_t count;            /* G: allocated */
    uint32_t used_count;       /* G: with references */
    uint32_t reserved_count;   /* G: for micro-batches that are planned */
};

/* The data of a memory, aligned to RAGGED_ALIGN_BYTES: pinned, or of a sample_reader from the heap.
 * bytes: above 0. -ENOMEM. */
int batch_data_alloc(const struct loader *loader, uint64_t bytes, uint8_t **ret_data,
                     struct err *err);
void batch_data_free(const struct loader *loader, uint8_t *data, uint64_t bytes);

/* Allocates memories for so many micro-batches. -ENOMEM. */
int batch_memories_open(struct loader *loader, const uint64_t bytes[BATCH_MEMORY_KINDS],
                        uint32_t count, struct err *err);
/* Frees those without references. */
void batch_memories_free(struct loader *loader);

/* All below require the mutex, except batch_memories_grow and batch_memory_wait. */

/* True if another micro-batch can be planned without allocating. */
bool batch_memories_are_available(const struct loader *loader);
void batch_memories_reserve(struct loader *loader);
/* Turns a reservation into a memory with one reference. NULL: this kind has no fields. */
struct batch_memory *batch_memory_acquire(struct loader *loader, enum batch_memory_kind kind);
/* Ends one reference; NULL is fine. */
void batch_memory_unref(struct batch_memory *memory);
/* Takes the mutex. Allocates what the next micro-batch lacks, beyond the budget. -ENOMEM. */
int batch_memories_grow(struct loader *loader, struct err *err);
/* Waits until the caller's last use of the memory has ended. */
int batch_memory_wait(const struct batch_memory *memory, struct err *err);

#endif
