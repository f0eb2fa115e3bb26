/*
 * bucket_exchange — sends gradients to the ranks that sum them: an all-to-all of the parts of a
 * group, in chunks, overlapped with the backward pass.
 *
 * Each rank contributes pieces of a group's gradients (leaves, or sums of several) and receives all
 * ranks' pieces of the part that it sums. A ring reduce-scatter moves the same number of bytes;
 * here the receiver adds, in an order that it chooses. If the order does not matter, the library's
 * reduce-scatter replaces the all-to-all.
 *
 *     // the pieces must not change until it is done
 *     bucket_exchange_begin(&exchange, group, &pieces, err);
 *     // call repeatedly: starts and completes what it can, never blocks
 *     bucket_exchange_pump(&exchange, err);
 *     bucket_exchange_drain(&exchange, err);                       // blocks until all is done
 *
 * Chunks bound the memory: each of BUCKET_EXCHANGE_BUCKETS holds at most chunk_elements of a part.
 * All ranks begin the same groups in the same order. If the communicator cannot access device
 * memory, bytes pass through pinned memory, in copies that overlap with computation.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_BUCKET_EXCHANGE_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_BUCKET_EXCHANGE_H

#include "comm/comm.h"
#include "trainer/ops/ops.h"
#include "trainer/parallel/partition.h"
#include "trainer/parallel/reduction/tree.h"

#include <stdbool.h>
#include <stdint.h>

enum { BUCKET_EXCHANGE_BUCKETS = 4, BUCKET_EXCHANGE_PIECES_MAX = TREE_LEVELS_MAX };

/* A received chunk of a part. Queued reads of the sources finish before the sources are
 * overwritten. */
struct bucket_exchange_chunk {
    /* Of the part. Parts that are shorter than others end with empty chunks. */
    uint64_t group, first, elements;
    bool is_last;               /* of the group */
    const void *const *sources; /* the pieces, by rank, then in each rank's order */
    uint32_t sources_count;
};

/* -errno stops the run. */
typedef int bucket_exchange_received(void *context, const struct bucket_exchange_chunk *chunk,
                                     struct err *err);

struct bucket_exchange_options {
    /* Borrowed, for exclusive use. If it takes device memory, `sums` and a narrower wire type are
     * not supported. */
    struct comm *comm;
    struct ops *ops; /* borrowed; its stream makes the pieces and uses the received chunks */
    const struct partition *partition; /* borrowed */
    uint64_t chunk_elements;
    uint32_t pieces_max;       /* of one rank */
    uint32_t pieces_total_max; /* of all ranks together */
    /* Each rank contributes one piece, and the library may add them: then one source arrives,
     * unless the wire type differs. */
    bool sums;
    struct bucket_exchange_wire {
        /* DTYPE_BF16 or DTYPE_F16; any other value means the master type, unchanged. */
        enum dtype type;
        float scale; /* factor before rounding; a power of two */
    } wire;
    uint64_t timeout_ns; /* per chunk; 0: none */
    bucket_exchange_received *received;
    void *context;
};

/* The pieces of one group. Arrays must live until bucket_exchange_drain. */
struct bucket_exchange_pieces {
    /* Start of the group in each of this rank's pieces. */
    const void *sources[BUCKET_EXCHANGE_PIECES_MAX];
    const uint32_t *counts; /* [ranks], number of pieces per rank, including this one */
};

struct bucket_exchange;

/* Allocates all memory up front. -ENOMEM. The caller owns *ret_exchange. */
int bucket_exchange_open(const struct bucket_exchange_options *options,
                         struct bucket_exchange **ret_exchange, struct err *err);
/* NULL is fine. Abandons operations in progress: see comm.h. */
void bucket_exchange_close(struct bucket_exchange *exchange);

/* Call after queueing the writes of the pieces; returns at once. A group in progress may be begun
 * again with other pieces, which finish later. -EIO. After a failure, all these calls return it
 * again and deliver nothing more. */
int bucket_exchange_begin(struct bucket_exchange *exchange, uint64_t group,
                          const struct bucket_exchange_pieces *pieces, struct err *err);
int bucket_exchange_pump(struct bucket_exchange *exchange, struct err *err);
/* Blocks until no operation reads from source, the first source of a begun exchange. */
int bucket_exchange_wait(struct bucket_exchange *exchange, const void *source, struct err *err);
int bucket_exchange_drain(struct bucket_exchange *exchange, struct err *err);
/* Total time blocked in the two calls above: the part of the exchanges not hidden by the passes.
 * NULL: 0. */
uint64_t bucket_exchange_waited_ns(const struct bucket_exchange *exchange);
/* True if nothing is in progress. If not, after a failure, the pieces may be read until the process
 * exits (comm.h). NULL is idle. */
bool bucket_exchange_is_idle(const struct bucket_exchange *exchange);

#endif
