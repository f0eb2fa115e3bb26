/*
 * memory_budget — the memory of reads, batch arrays and substitutes, within options.memory_bytes.
 *
 * Reads go to the arena. A read that the arena can never hold gets its own memory from the rest of
 * the budget. Batch arrays come from a stack, most recently freed first, so that only as much is
 * touched as holds decoded data at any time.
 *
 * Any thread may call these functions, with or without the loader's mutex. The budget's mutex is a
 * leaf: no other lock is taken while it is held. A thread that frees a read's memory wakes the
 * reader afterwards, under the loader's mutex.
 */
#ifndef MILLRACE_LOADER_MEMORY_BUDGET_H
#define MILLRACE_LOADER_MEMORY_BUDGET_H

#include "loader/parts/read_arena.h"
#include "loader/slots.h"

#include <pthread.h>

struct memory_budget {
    /* Immutable after open. */
    struct device *device;
    void *arena_memory;
    uint64_t limit_bytes;     /* options.memory_bytes */
    uint64_t allocated_bytes; /* at open */
    uint64_t slot_bytes;      /* of a batch's arrays, pinned */

    pthread_mutex_t mutex; /* guards the rest, except the atomic */
    struct read_arena arena;
    uint64_t spare_bytes;  /* unused rest, for oversized reads */
    uint8_t **spare_slots; /* batch arrays that no slot uses: spare_count of slots_count */
    uint32_t spare_count;
    /* of workers and batches, outside the budget; at most limit_bytes */
    atomic_uint_least64_t substitute_bytes;
};

/* Allocates slots, arena and lists. -ENOMEM; -EINVAL with advice if the budget is too small. */
int loader_budget_init(struct loader *loader, struct err *err);
void loader_budget_deinit(struct loader *loader);

/* Sets the chunk's request.data unless it has memory. False: the arena is full, and *ret_frees is
 * what memory_frees_count returns until memory is freed. */
bool chunk_alloc(struct memory_budget *memory, struct load_chunk *chunk, uint64_t *ret_frees);
/* The number of reads freed so far. After a change, chunk_alloc may succeed. */
uint64_t memory_frees_count(struct memory_budget *memory);
/* Allocates outside the arena. -ENOBUFS: the rest of the budget, *ret_spare_bytes, is too small;
 * -ENOMEM with detail. */
int chunk_alloc_own_memory(struct memory_budget *memory, struct load_chunk *chunk,
                           uint64_t *ret_spare_bytes, struct err *err);
void chunk_free_memory(struct memory_budget *memory, struct load_chunk *chunk);

/* A batch's arrays, slot_bytes; there are enough for all slots. NULL is free. */
uint8_t *memory_acquire_slot(struct memory_budget *memory);
void memory_release_slot(struct memory_budget *memory, uint8_t *arrays);

/* Frees a substitute's bytes (substitute.c); NULL is fine. */
void substitute_free(struct memory_budget *memory, uint8_t *substitute, uint64_t bytes);

#endif
