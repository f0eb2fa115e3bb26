/*
 * read_arena — see read_arena.h.
 */
#include "loader/parts/read_arena.h"

#include "base/bytes.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

enum { WORD_PAGES = 64 };
#define ALL_USED UINT64_MAX
#define NO_PAGE  UINT64_MAX

static void mark_pages(struct read_arena *arena, uint64_t first, uint64_t count, bool is_used)
{
    (void)is_used; /* unused without assertions */
    for (uint64_t page = first; page < first + count;) {
        uint64_t at = page % WORD_PAGES, bits = bytes_min(WORD_PAGES - at, first + count - page);
        uint64_t mask = (bits == WORD_PAGES ? ALL_USED : (UINT64_C(1) << bits) - 1) << at;
        uint64_t *word = &arena->used[page / WORD_PAGES];
        assert((*word & mask) == (is_used ? 0 : mask));
        *word ^= mask;
        page += bits;
    }
}

int read_arena_init(struct read_arena *arena, void *memory, uint64_t capacity_bytes)
{
    assert(capacity_bytes % READ_ARENA_PAGE_BYTES == 0 &&
           (uintptr_t)memory % READ_ARENA_PAGE_BYTES == 0);
    uint64_t pages = capacity_bytes / READ_ARENA_PAGE_BYTES, words = pages / WORD_PAGES + 1;
    uint64_t *used = calloc(words, sizeof *used);
    if (!used)
        return -ENOMEM;
    *arena = (struct read_arena){
        .memory = memory, .capacity_bytes = capacity_bytes, .used = used, .pages_count = pages};
    mark_pages(arena, pages, words * WORD_PAGES - pages, true);
    return 0;
}

void read_arena_deinit(struct read_arena *arena)
{
    free(arena->used);
    arena->used = NULL;
}

/* Returns the lowest run of count free pages, or NO_PAGE. */
static uint64_t find_run(const struct read_arena *arena, uint64_t count)
{
    uint64_t run = 0, words = arena->pages_count / WORD_PAGES + 1;
    for (uint64_t w = arena->lowest_candidate / WORD_PAGES; w < words; w++) {
        uint64_t left = arena->used[w];
        if (left == ALL_USED)
            run = 0;
        for (uint64_t at = left == ALL_USED ? WORD_PAGES : 0; at < WORD_PAGES;) {
            uint64_t free_count = left ? (uint64_t)__builtin_ctzll(left) : WORD_PAGES - at;
            run += free_count;
            at += free_count;
            if (run >= count)
                return w * WORD_PAGES + at - run;
            if (at == WORD_PAGES)
                break;
            left >>= free_count; /* the next page is used */
            uint64_t used_count = (uint64_t)__builtin_ctzll(~left);
            run = 0;
            at += used_count;
            left >>= used_count; /* less than a full word, as checked above */
        }
    }
    return NO_PAGE;
}

static uint64_t count_pages(uint64_t residue, uint64_t bytes)
{
    return (residue + bytes + READ_ARENA_PAGE_BYTES - 1) / READ_ARENA_PAGE_BYTES;
}

uint8_t *read_arena_alloc(struct read_arena *arena, uint64_t bytes, uint64_t offset)
{
    assert(bytes > 0);
    if (bytes > arena->capacity_bytes)
        return NULL;
    uint64_t residue = offset % READ_ARENA_PAGE_BYTES, count = count_pages(residue, bytes);
    uint64_t first = find_run(arena, count);
    if (first == NO_PAGE)
        return NULL;
    mark_pages(arena, first, count, true);
    if (first == arena->lowest_candidate)
        arena->lowest_candidate = first + count;
    return arena->memory + first * READ_ARENA_PAGE_BYTES + residue;
}

void read_arena_free(struct read_arena *arena, const uint8_t *data, uint64_t bytes)
{
    uint64_t at = (uint64_t)(data - arena->memory), first = at / READ_ARENA_PAGE_BYTES;
    mark_pages(arena, first, count_pages(at % READ_ARENA_PAGE_BYTES, bytes), false);
    arena->lowest_candidate = bytes_min(arena->lowest_candidate, first);
    arena->frees_count++;
}
