/*
 * ring — memory for what is read ahead: taken at one end, given back at the other.
 *
 *        head (oldest taken)                tail (next to take)
 *     ...|=====|=======|--free--|=====|=====|......
 *
 * Ranges are taken in the order that micro-batches need them and may be given back in any order; memory becomes free
 * again in the order it was taken. A range is contiguous and starts at an address that is congruent to its offset in
 * the file modulo RING_ALIGN_BYTES, and nothing else lies in the pages that it begins and ends in, so that an engine that
 * reads around the page cache can move whole pages straight into place (IO_SLACK). Guarded by its owner's lock.
 */
#ifndef MILLRACE_LOADER_RING_H
#define MILLRACE_LOADER_RING_H

#include "io/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RING_ALIGN_BYTES = IO_ALIGN_BYTES };

struct ring_entry {
    uint64_t end; /* where the range ends, in bytes ever taken */
    bool is_free;
};

struct ring {
    uint8_t *memory;            /* borrowed, aligned to RING_ALIGN_BYTES */
    uint64_t capacity_bytes;    /* a multiple of RING_ALIGN_BYTES */
    uint64_t head, tail;        /* bytes ever given back and taken, in whole pages */
    struct ring_entry *entries; /* of entries_capacity, used as a ring */
    uint32_t entries_capacity;
    uint64_t first_entry, next_entry; /* numbers of the oldest range taken and of the next one */
};

/* -ENOMEM. */
int ring_init(struct ring *ring, void *memory, uint64_t capacity_bytes, uint32_t entries_capacity);
void ring_deinit(struct ring *ring);

/* Room for bytes that lie at offset of a file; NULL where there is none now. *ret_entry serves ring_free. */
uint8_t *ring_take(struct ring *ring, uint64_t bytes, uint64_t offset, uint64_t *ret_entry);
void ring_free(struct ring *ring, uint64_t entry);

static inline bool ring_is_empty(const struct ring *ring)
{
    return ring->first_entry == ring->next_entry;
}

#endif
