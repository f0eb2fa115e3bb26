/*
 * read_arena — allocates runs of pages for read-ahead, always at the lowest free address.
 *
 *     |####|##|----|###|-------------------......
 *      #: allocated   -: free   .: never touched
 *
 * Reusing low pages keeps resident memory near the actual read-ahead. A range's address is
 * congruent to its file offset modulo READ_ARENA_PAGE_BYTES, and ranges share no page, so an
 * engine that bypasses the page cache can read whole pages into place (IO_PADDED). Guarded by
 * the owner's lock.
 */
#ifndef MILLRACE_LOADER_PARTS_READ_ARENA_H
#define MILLRACE_LOADER_PARTS_READ_ARENA_H

#include "io/io.h"

#include <stdint.h>

enum { READ_ARENA_PAGE_BYTES = IO_ALIGN_BYTES };

struct read_arena {
    uint8_t *memory;                        /* borrowed, aligned to READ_ARENA_PAGE_BYTES */
    uint64_t capacity_bytes;                /* a multiple of READ_ARENA_PAGE_BYTES */
    uint64_t *used;                         /* one bit per page; padding bits are set */
    uint64_t pages_count, lowest_candidate; /* all pages below lowest_candidate are used */
    /* After this changes, a retry of a failed allocation may succeed. */
    uint64_t frees_count;
};

/* -ENOMEM. */
int read_arena_init(struct read_arena *arena, void *memory, uint64_t capacity_bytes);
void read_arena_deinit(struct read_arena *arena);

/* Returns memory for `bytes` (at least one) at a file's `offset`, or NULL if no free run is long
 * enough. */
uint8_t *read_arena_alloc(struct read_arena *arena, uint64_t bytes, uint64_t offset);
/* data and bytes must match the allocation. */
void read_arena_free(struct read_arena *arena, const uint8_t *data, uint64_t bytes);

#endif
