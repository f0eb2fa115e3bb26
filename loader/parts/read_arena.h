/*
 * read_arena — allocates memory for read-ahead: runs of pages, always at the lowest free address.
 *
 *     |####|##|----|###|-------------------......
 *      taken    hole     never touched yet
 *
 * Allocating lowest first reuses resident pages before it touches others, so that resident memory
 * follows the actual read-ahead, not its limit. A range starts at an address congruent to its
 * offset in the file modulo READ_ARENA_PAGE_BYTES and shares no page with other ranges, so that an
 * engine that bypasses the page cache can read whole pages directly into place (IO_PADDED). Guarded
 * by its owner's lock.
 */
#ifndef MILLRACE_LOADER_PARTS_READ_ARENA_H
#define MILLRACE_LOADER_PARTS_READ_ARENA_H

#include "io/io.h"

#include <stdint.h>

enum { READ_ARENA_PAGE_BYTES = IO_ALIGN_BYTES };

struct read_arena {
    uint8_t *memory;              /* borrowed, aligned to READ_ARENA_PAGE_BYTES */
    uint64_t capacity_bytes;      /* a multiple of READ_ARENA_PAGE_BYTES */
    uint64_t *taken;              /* one bit per page; bits beyond the last page are set */
    uint64_t pages_count, lowest; /* no page below lowest is free */
    /* number of ranges ever freed: a change means that an allocation may now succeed */
    uint64_t frees_count;
};

/* -ENOMEM. */
int read_arena_init(struct read_arena *arena, void *memory, uint64_t capacity_bytes);
void read_arena_deinit(struct read_arena *arena);

/* Memory for `bytes` (at least one) at `offset` of a file; NULL if no run of pages is free for
 * them. */
uint8_t *read_arena_alloc(struct read_arena *arena, uint64_t bytes, uint64_t offset);
/* data and bytes as allocated. */
void read_arena_free(struct read_arena *arena, const uint8_t *data, uint64_t bytes);

#endif
