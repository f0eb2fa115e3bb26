/*
 * chunks — the loader's reads, each shared by the pieces of one or more samples.
 *
 *     chunk_take -> chunk_join by pieces -> issued -> read: pieces get their data -> chunk_release
 *
 * The last user that releases a chunk frees its memory. Its users are the pieces of unfinished
 * items; with LOADER_BYTES, whose batches point into chunks, of unreleased ones.
 *
 * The pool has a chunk for each piece of each slot, so it never runs out.
 *
 * The loader's mutex guards fields marked G; the reader's thread owns all others.
 */
#ifndef MILLRACE_LOADER_CHUNKS_H
#define MILLRACE_LOADER_CHUNKS_H

#include "io/io.h"
#include "loader/view.h"

struct loader;
struct load_slot;

/* request.data is NULL until memory is allocated (memory_budget.h). */
struct load_chunk {
    struct io_request request;
    void *own_memory; /* outside the arena, or NULL */
    uint64_t own_bytes;
    struct load_piece *first_waiting, *last_waiting; /* G: pieces to be delivered */
    uint32_t users;                                  /* G */
    bool is_read;                                    /* G */
    struct load_chunk *next;                         /* G: in a list */
    uint64_t trace_begin_ns;                         /* issue time; 0: not traced */
};

/* A field of a slot's item, or a part of it. */
struct load_piece {
    struct view_piece view;
    struct load_slot *slot;
    struct load_chunk *chunk;        /* NULL: nothing to read */
    struct load_piece *next_waiting; /* G */
    uint32_t item;
};

struct chunk_list {
    struct load_chunk *first, *last;
};

struct chunk_pool {
    struct load_chunk *chunks; /* immutable after open */
    uint64_t chunks_count;
    struct chunk_list free;
    struct load_chunk *freed; /* G: to be moved to `free` */
};

/* -ENOMEM. */
int chunk_pool_init(struct chunk_pool *pool, uint64_t count);
/* Requires chunks without memory. Safe on a zeroed pool. */
void chunk_pool_deinit(struct chunk_pool *pool);
/* Requires the mutex. Makes released chunks available to chunk_take. */
void chunk_pool_reclaim(struct chunk_pool *pool);

void chunk_list_append(struct chunk_list *list, struct load_chunk *chunk);
struct load_chunk *chunk_list_take(struct chunk_list *list); /* the first, or NULL */

/* Returns an unused chunk, all zeros. */
struct load_chunk *chunk_take(struct chunk_pool *pool);
/* Makes the piece a user of a chunk that is not read. Requires the mutex if it is issued. */
void chunk_join(struct load_chunk *chunk, struct load_piece *piece);
/* Requires the mutex. Ends one user's use. After it frees memory, wake the reader. */
void chunk_release(struct loader *loader, struct load_chunk *chunk);

#endif
