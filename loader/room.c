/*
 * room — see room.h.
 */
#include "loader/room.h"

#include "base/bytes.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

enum { WORD_PAGES = 64 };
#define ALL_TAKEN UINT64_MAX
#define NO_PAGE   UINT64_MAX

static void mark(struct room *room, uint64_t first, uint64_t count, bool is_taken)
{
    (void)is_taken; /* unused without assertions */
    for (uint64_t page = first; page < first + count;) {
        uint64_t at = page % WORD_PAGES, bits = bytes_min(WORD_PAGES - at, first + count - page);
        uint64_t mask = (bits == WORD_PAGES ? ALL_TAKEN : (UINT64_C(1) << bits) - 1) << at;
        uint64_t *word = &room->taken[page / WORD_PAGES];
        assert((*word & mask) == (is_taken ? 0 : mask));
        *word ^= mask;
        page += bits;
    }
}

int room_init(struct room *room, void *memory, uint64_t capacity_bytes)
{
    assert(capacity_bytes % ROOM_PAGE_BYTES == 0 && (uintptr_t)memory % ROOM_PAGE_BYTES == 0);
    uint64_t pages = capacity_bytes / ROOM_PAGE_BYTES, words = pages / WORD_PAGES + 1;
    uint64_t *taken = calloc(words, sizeof *taken);
    if (!taken)
        return -ENOMEM;
    *room = (struct room){
        .memory = memory, .capacity_bytes = capacity_bytes, .taken = taken, .pages_count = pages};
    mark(room, pages, words * WORD_PAGES - pages, true);
    return 0;
}

void room_deinit(struct room *room)
{
    free(room->taken);
    room->taken = NULL;
}

/* The lowest run of count free pages; NO_PAGE: there is none. */
static uint64_t find_run(const struct room *room, uint64_t count)
{
    uint64_t run = 0, words = room->pages_count / WORD_PAGES + 1;
    for (uint64_t w = room->lowest / WORD_PAGES; w < words; w++) {
        uint64_t left = room->taken[w];
        if (left == ALL_TAKEN)
            run = 0;
        for (uint64_t at = left == ALL_TAKEN ? WORD_PAGES : 0; at < WORD_PAGES;) {
            uint64_t free_count = left ? (uint64_t)__builtin_ctzll(left) : WORD_PAGES - at;
            run += free_count;
            at += free_count;
            if (run >= count)
                return w * WORD_PAGES + at - run;
            if (at == WORD_PAGES)
                break;
            left >>= free_count; /* a taken page comes next */
            uint64_t taken_count = (uint64_t)__builtin_ctzll(~left);
            run = 0;
            at += taken_count;
            left >>= taken_count; /* fewer than all: that was seen to above */
        }
    }
    return NO_PAGE;
}

static uint64_t pages_of(uint64_t residue, uint64_t bytes)
{
    return (residue + bytes + ROOM_PAGE_BYTES - 1) / ROOM_PAGE_BYTES;
}

uint8_t *room_take(struct room *room, uint64_t bytes, uint64_t offset)
{
    assert(bytes > 0);
    if (bytes > room->capacity_bytes)
        return NULL;
    uint64_t residue = offset % ROOM_PAGE_BYTES, count = pages_of(residue, bytes);
    uint64_t first = find_run(room, count);
    if (first == NO_PAGE)
        return NULL;
    mark(room, first, count, true);
    if (first == room->lowest)
        room->lowest = first + count;
    return room->memory + first * ROOM_PAGE_BYTES + residue;
}

void room_free(struct room *room, const uint8_t *data, uint64_t bytes)
{
    uint64_t at = (uint64_t)(data - room->memory), first = at / ROOM_PAGE_BYTES;
    mark(room, first, pages_of(at % ROOM_PAGE_BYTES, bytes), false);
    room->lowest = bytes_min(room->lowest, first);
    room->frees_count++;
}
