/*
 * read_arena — memory for what is read ahead: runs of pages, each taken as low as there is one.
 *
 *     |####|##|----|###|-------------------......
 *      taken    hole     never touched yet
 *
 * Lowest first, so that pages which are in memory already serve again before others are touched:
 * what lies in memory follows what is really read ahead, not what may be. A range starts at an
 * address that is congruent to its offset in the file modulo READ_ARENA_PAGE_BYTES, and nothing
 * else lies in the pages that it begins and ends in, so that an engine that reads around the page
 * cache can move whole pages straight into place (IO_PADDED). Guarded by its owner's lock.
 */
#ifndef MILLRACE_LOADER_READ_ARENA_H
#define MILLRACE_LOADER_READ_ARENA_H

#include "io/io.h"

#include <stdint.h>

enum { READ_ARENA_PAGE_BYTES = IO_ALIGN_BYTES };

struct read_arena {
    uint8_t *memory;              /* borrowed, aligned to READ_ARENA_PAGE_BYTES */
    uint64_t capacity_bytes;      /* a multiple of READ_ARENA_PAGE_BYTES */
    uint64_t *taken;              /* a bit a page; those behind the last page are set */
    uint64_t pages_count, lowest; /* no page below lowest is free */
    uint64_t frees_count;         /* ranges ever given back: it moves when there may be more room */
};

/* -ENOMEM. */
int read_arena_init(struct read_arena *arena, void *memory, uint64_t capacity_bytes);
void read_arena_deinit(struct read_arena *arena);

/* Room for bytes, at least one, that lie at offset of a file; NULL where there is no run of pages
 * for them now. */
uint8_t *read_arena_alloc(struct read_arena *arena, uint64_t bytes, uint64_t offset);
/* data and bytes as they were taken. */
void read_arena_free(struct read_arena *arena, const uint8_t *data, uint64_t bytes);

#endif
