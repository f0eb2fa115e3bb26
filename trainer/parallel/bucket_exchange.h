/*
 * bucket_exchange — gradients on their way to those who sum them: an all-to-all of the parts of a
 * group, in chunks, beside the backward pass.
 *
 * Each rank gives pieces of a group's gradients (leaves, or sums of several); each gets, for the
 * part that it sums, everybody's pieces. A ring's reduce-scatter moves as many bytes; here the
 * additions are the receiver's, in an order of its own choosing. Where that is nobody's concern,
 * the library's own reduce-scatter takes the place of the all-to-all.
 *
 *     // the pieces stay as they are until it is done
 *     bucket_exchange_begin(&exchange, group, &pieces, err);
 *     // now and then: starts and ends what can be, never blocks
 *     bucket_exchange_pump(&exchange, err);
 *     bucket_exchange_drain(&exchange, err);                       // blocks until all is done
 *
 * Chunks bound the memory: of a part no more than chunk_elements are in progress in each of
 * BUCKET_EXCHANGE_BUCKETS. All ranks begin the same groups in the same order. Where device memory
 * is not the host's, and the communicator takes only that, bytes pass through pinned memory, copied
 * beside the computation.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_BUCKET_EXCHANGE_H
#define MILLRACE_TRAINER_PARALLEL_BUCKET_EXCHANGE_H

#include "comm/comm.h"
#include "trainer/ops/ops.h"
#include "trainer/parallel/partition.h"
#include "trainer/parallel/tree.h"

#include <stdbool.h>
#include <stdint.h>

enum { BUCKET_EXCHANGE_BUCKETS = 4, BUCKET_EXCHANGE_PIECES_MAX = TREE_LEVELS_MAX };

/* What has come of a part. Queued reads of the sources end before they are written again. */
struct bucket_exchange_chunk {
    uint64_t group, first,
        /* of the part; a part that is shorter than others has chunks of none at its end */
        elements;
    bool is_last;               /* of the group */
    const void *const *sources; /* the pieces, in the order of ranks and then of theirs */
    uint32_t sources_count;
};

/* -errno ends the run. */
typedef int bucket_exchange_received(void *context, const struct bucket_exchange_chunk *chunk,
                                     struct err *err);

struct bucket_exchange_options {
    /* Borrowed; nothing else is done on it. One that takes device memory neither sums nor
     * narrows. */
    struct comm *comm;
    struct ops *ops; /* borrowed: the pieces are made, and what has come is used, on its stream */
    const struct partition *partition; /* borrowed */
    uint64_t chunk_elements;
    uint32_t pieces_max;       /* of one rank */
    uint32_t pieces_total_max; /* of all ranks together */
    /* Each rank gives one piece, and the library may add them on the way: one source comes, unless
     * they travel in another type. */
    bool sums;
    struct bucket_exchange_wire {
        enum dtype
            /* in which they travel: DTYPE_BF16, DTYPE_F16; any other: in the master type, as they
             * are */
            type;
        float scale; /* what is rounded is so much of them: a power of two */
    } wire;
    uint64_t timeout_ns; /* of a chunk; 0: none */
    bucket_exchange_received *received;
    void *context;
};

/* Of one group. Texts and arrays live until bucket_exchange_drain. */
struct bucket_exchange_pieces {
    const void *sources
        [BUCKET_EXCHANGE_PIECES_MAX]; /* where the group begins in each of this rank's pieces */
    const uint32_t *counts;           /* [ranks], of each rank's; this rank's among them */
};

struct bucket_exchange;

/* Allocates all that it will take. -ENOMEM. Gives the exchange. */
int bucket_exchange_open(const struct bucket_exchange_options *options,
                         struct bucket_exchange **ret_exchange, struct err *err);
void bucket_exchange_close(
    struct bucket_exchange *exchange); /* NULL is fine. What is in progress is let go: see comm.h */

/* Once the writes of the pieces are queued; returns at once. Of a group that is in progress: other
 * pieces, which end after those. -EIO. What one of these calls failed with is what all of them fail
 * with afterwards, and nothing is handed over any more. */
int bucket_exchange_begin(struct bucket_exchange *exchange, uint64_t group,
                          const struct bucket_exchange_pieces *pieces, struct err *err);
int bucket_exchange_pump(struct bucket_exchange *exchange, struct err *err);
/* Blocks until nobody reads from there any more; source: the first of what was begun. */
int bucket_exchange_wait(struct bucket_exchange *exchange, const void *source, struct err *err);
int bucket_exchange_drain(struct bucket_exchange *exchange, struct err *err);
/* How long the last two have blocked, all together: what of the exchanges was not hidden behind the
 * passes. NULL: 0. */
uint64_t bucket_exchange_waited_ns(const struct bucket_exchange *exchange);
/* Nothing is in progress: else, after a failure, the pieces may be read until the process exits
 * (comm.h). NULL is idle. */
bool bucket_exchange_is_idle(const struct bucket_exchange *exchange);

#endif
