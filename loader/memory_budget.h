/*
 * memory_budget — memory for reads and substitutes, within options.memory_bytes.
 *
 * Reads use the arena; a read that exceeds it gets memory from the rest of the budget.
 *
 * Thread-safe, with or without the loader's mutex held; the budget's mutex is a leaf lock. After
 * freeing a read's memory, wake the reader under the loader's mutex.
 */
#ifndef MILLRACE_LOADER_MEMORY_BUDGET_H
#define MILLRACE_LOADER_MEMORY_BUDGET_H

#include "loader/chunks.h"
#include "loader/parts/read_arena.h"

#include <stdatomic.h>

#include <pthread.h>

struct memory_budget {
    /* Immutable after open. */
    struct device *device;
    void *arena_memory;
    uint64_t limit_bytes;
    uint64_t allocated_bytes; /* at open */

    pthread_mutex_t mutex; /* guards the fields below, except the atomic */
    struct read_arena arena;
    uint64_t spare_bytes; /* left for oversized reads */
    /* outside the budget; at most limit_bytes */
    atomic_uint_least64_t substitute_bytes;
};

/* -ENOMEM; -EINVAL with advice if the budget is too small. */
int loader_budget_init(struct loader *loader, struct err *err);
/* For a sample_reader: there are no slots and no reads, and batch memory is allocated on demand.
 * -ENOMEM. */
int loader_budget_init_for_samples(struct loader *loader, struct err *err);
/* Frees the memory of reads. loader_budget_deinit does it too. */
void loader_budget_free_reads(struct loader *loader);
void loader_budget_deinit(struct loader *loader);

/* Sets the chunk's request.data unless already set. False: the arena is full; retry when
 * memory_frees_count differs from *ret_frees. */
bool chunk_alloc(struct memory_budget *memory, struct load_chunk *chunk, uint64_t *ret_frees);
/* Returns the number of reads freed so far. */
uint64_t memory_frees_count(struct memory_budget *memory);
/* Allocates outside the arena. -ENOBUFS: the rest of the budget, *ret_spare_bytes, is too small;
 * -ENOMEM with detail. */
int chunk_alloc_own_memory(struct memory_budget *memory, struct load_chunk *chunk,
                           uint64_t *ret_spare_bytes, struct err *err);
void chunk_free_memory(struct memory_budget *memory, struct load_chunk *chunk);

/* Takes bytes from the rest of the budget and sets *ret_spare_bytes to what remains. False: too
 * little is left. */
bool memory_reserve_spare(struct memory_budget *memory, uint64_t bytes, uint64_t *ret_spare_bytes);
void memory_return_spare(struct memory_budget *memory, uint64_t bytes);
uint64_t memory_spare_bytes(struct memory_budget *memory);

/* Memory for substitutes does not count against the budget but has its own limit of the same size.
 * dataset: a path, for messages. -ENOBUFS: the limit would be exceeded. */
int substitute_reserve(struct memory_budget *memory, uint64_t bytes, const char *dataset,
                       struct err *err);
/* Also -ENOMEM. */
int substitute_alloc(struct memory_budget *memory, uint64_t bytes, const char *dataset,
                     uint8_t **ret_data, struct err *err);
/* Ends the reservation. NULL is fine. */
void substitute_free(struct memory_budget *memory, uint8_t *substitute, uint64_t bytes);

#endif
