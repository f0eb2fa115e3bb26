/*
 * gradient_sync — parts of gradients on their way to the ranks that sum them, and sums to all ranks
 * that hold the same shard: what ways of summing have in common whose ranks sum parts.
 *
 *     gradient_sync_open(&sync, &options, err);
 *     gradient_sync_connect(...); gradient_sync_open_exchange(...);
 *     where each micro-batch is exchanged: gradient_sync_need before a group is written
 *     // its chunks come to options.received, here and on the others
 *     gradient_sync_send(&sync, group, &pieces, err);
 *     // from there, once this rank's part of a group is summed
 *     gradient_sync_share(&sync, group, sum, arena, err);
 *     gradient_sync_finish(&sync, err);
 *     gradient_sync_wait(&sync, group, err);  // the shard at gradient_sync_shard is whole
 *
 * Sums come about when pieces come, at one place of the pass here, at another there. So none waits
 * there for the other ranks, which may wait for this one to go on: sums for which the gather has no
 * room wait for the next call, and at last for gradient_sync_finish.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_GRADIENT_SYNC_H
#define MILLRACE_TRAINER_PARALLEL_GRADIENT_SYNC_H

#include "trainer/parallel/bucket_exchange.h"
#include "trainer/parallel/gradient_leaves.h"
#include "trainer/parallel/param_gather.h"
#include "trainer/parallel/reduction.h"

struct gradient_sync_options {
    struct reduction_options reduction;
    uint32_t pieces_max, pieces_total_max; /* of exchange_options, as the next ones */
    bool sums;
    bucket_exchange_received *received;
    void *context;
};

/* A group whose part is summed, and which is not gathered yet. */
struct gradient_sync_sum {
    uint64_t group;
    void *buffer;
};

/* Owner thread. */
struct gradient_sync {
    struct gradient_sync_options options;
    struct comm *exchange_comm, *gather_comm; /* owned; NULL where nothing is gathered */
    struct bucket_exchange *exchange;
    struct param_gather *gather; /* NULL where no shard has more than one part; as are sums */
    struct gradient_sync_sum
        *sums; /* [groups_count]: of this step, of which so many are being gathered */
    uint64_t sums_count, sums_begun;
    struct gradient_leaves leaves; /* unused unless each micro-batch is exchanged */
    void *
        /* gradients of this rank's shards, where they are gathered and have no other place */
        shards;
};

/* Of more ranks than one. */
int gradient_sync_open(struct gradient_sync *sync, const struct gradient_sync_options *options,
                       struct err *err);
int gradient_sync_connect(struct gradient_sync *sync, struct err *err); /* collective */
int gradient_sync_open_exchange(struct gradient_sync *sync, struct err *err);
/* Nothing is in progress: else, after a failure, what was sent from and gathered to stays until the
 * process exits (comm.h). */
bool gradient_sync_is_idle(const struct gradient_sync *sync);
void gradient_sync_close(struct gradient_sync *sync); /* safe on a zeroed one */

/* Where a pass writes the group's gradients; a rank that computes nothing in this round waits where
 * the others do, so that none runs away from what it still has to receive. */
int gradient_sync_need(struct gradient_sync *sync, uint64_t group, void **ret_gradients,
                       struct err *err);
int gradient_sync_send(struct gradient_sync *sync, uint64_t group,
                       const struct bucket_exchange_pieces *pieces, struct err *err);
/* arena: of all that is trained, whose gradients of this group were sent; NULL: the delivery has
 * its own place. sum: of this rank's part; may be at its place in the arena. Nothing where the part
 * is all that this rank holds. */
int gradient_sync_share(struct gradient_sync *sync, uint64_t group, const void *sum, void *arena,
                        struct err *err);
int gradient_sync_finish(struct gradient_sync *sync, struct err *err);

/* Do others sum parts of what this rank holds of the group? Then where that is put together. */
bool gradient_sync_gathers(const struct gradient_sync *sync, uint64_t group);
void *gradient_sync_shard(const struct gradient_sync *sync, uint64_t group, void *arena);
int gradient_sync_wait(struct gradient_sync *sync, uint64_t group, struct err *err);
uint64_t gradient_sync_waited_ns(const struct gradient_sync *sync); /* blocked in all of these */

#endif
