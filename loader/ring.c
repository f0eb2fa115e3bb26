/*
 * ring — see ring.h.
 */
#include "loader/ring.h"

#include "base/bytes.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int ring_init(struct ring *ring, void *memory, uint64_t capacity_bytes, uint32_t entries_capacity)
{
    assert(capacity_bytes % RING_ALIGN_BYTES == 0 && (uintptr_t)memory % RING_ALIGN_BYTES == 0);
    struct ring_entry *entries = calloc(entries_capacity, sizeof *entries);
    if (!entries)
        return -ENOMEM;
    *ring = (struct ring){.memory = memory,
                          .capacity_bytes = capacity_bytes,
                          .entries = entries,
                          .entries_capacity = entries_capacity};
    return 0;
}

void ring_deinit(struct ring *ring)
{
    free(ring->entries);
    ring->entries = NULL;
}

uint8_t *ring_take(struct ring *ring, uint64_t bytes, uint64_t offset, uint64_t *ret_entry)
{
    if (ring->next_entry - ring->first_entry == ring->entries_capacity || bytes > ring->capacity_bytes)
        return NULL;
    if (ring_is_empty(ring)) /* from the start again, so that the largest range fits */
        ring->head = ring->tail = 0;
    uint64_t residue = offset % RING_ALIGN_BYTES, span = bytes_round_up(residue + bytes, RING_ALIGN_BYTES);
    uint64_t begin = ring->tail, place = begin % ring->capacity_bytes;
    if (place + span > ring->capacity_bytes) { /* it would be cut in two: begin again at the front */
        begin += ring->capacity_bytes - place;
        place = 0;
    }
    if (begin + span - ring->head > ring->capacity_bytes)
        return NULL;
    ring->tail = begin + span;
    *ret_entry = ring->next_entry++;
    ring->entries[*ret_entry % ring->entries_capacity] = (struct ring_entry){.end = ring->tail};
    return ring->memory + place + residue;
}

void ring_free(struct ring *ring, uint64_t entry)
{
    assert(entry >= ring->first_entry && entry < ring->next_entry);
    ring->entries[entry % ring->entries_capacity].is_free = true;
    while (ring->first_entry < ring->next_entry) {
        const struct ring_entry *oldest = &ring->entries[ring->first_entry % ring->entries_capacity];
        if (!oldest->is_free)
            break;
        ring->head = oldest->end;
        ring->first_entry++;
    }
}
