/*
 * chunks — the loader's reads, each shared by the pieces of one or more samples.
 *
 *     chunk_plan -> chunk_join by pieces -> issued -> read -> chunk_deliver -> chunk_release
 *
 * The last user that releases a chunk frees its memory. Its users are the pieces of unfinished
 * items (with LOADER_BYTES, whose batches point into chunks, of unreleased ones) and the lane that
 * keeps it (long_reads.h).
 *
 * The pool has a chunk for each piece of each slot, for all that lanes keep, and one that is split
 * after an error, so it never runs out.
 *
 * The loader's mutex guards fields marked G; the reader's thread owns all others, and all of a
 * chunk until it is issued.
 */
#ifndef MILLRACE_LOADER_CHUNKS_H
#define MILLRACE_LOADER_CHUNKS_H

#include "io/io.h"
#include "loader/view.h"

struct loader;
struct load_slot;
struct reader;

/* request.data is NULL until memory is allocated (memory_budget.h). */
struct load_chunk {
    struct io_request request;
    void *own_memory; /* outside the arena, or NULL */
    uint64_t own_bytes;
    struct load_piece *first_waiting, *last_waiting; /* G: pieces to be delivered */
    uint32_t users;                                  /* G */
    bool is_long;                                    /* long_reads.h */
    struct kept_part *keeper;                        /* part of a lane that keeps it, or NULL */
    struct load_chunk *next_dropped;
    uint64_t shard;          /* number in the shard cache */
    bool is_read;            /* G */
    struct load_chunk *next; /* G: in a list */
    uint64_t trace_begin_ns; /* issue time; 0: not traced */
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
/* Requires the mutex. Makes released chunks available to chunk_plan. */
void chunk_pool_reclaim(struct chunk_pool *pool);

void chunk_list_append(struct chunk_list *list, struct load_chunk *chunk);
struct load_chunk *chunk_list_take(struct chunk_list *list); /* the first, or NULL */

/* Adds a chunk of the bytes [begin, end) of a shard to those to be issued. */
struct load_chunk *chunk_plan(struct reader *reader, const struct shard *shard,
                              uint64_t shard_number, uint64_t begin, uint64_t end);
/* Makes the piece a user of the chunk. Requires the mutex if the chunk is issued; if it is read,
 * chunk_deliver must follow. */
void chunk_join(struct load_chunk *chunk, struct load_piece *piece);
/* Requires the mutex and a chunk that is read. Gives the waiting pieces their data, and queues
 * items that have all of it. A read error fails them. */
void chunk_deliver(struct loader *loader, struct load_chunk *chunk, uint64_t now_ns);
/* Requires the mutex. Ends one user's use. After it frees memory, wake the reader. */
void chunk_release(struct loader *loader, struct load_chunk *chunk);

#endif
