/*
 * gradient_sync — sends parts of gradients to the ranks that sum them, and sums to all ranks that
 * hold the same shard. For the reduction methods whose ranks sum parts.
 *
 *     gradient_sync_open(&sync, &options, err);
 *     gradient_sync_connect(...); gradient_sync_open_exchange(...);
 *     if each micro-batch is exchanged: gradient_sync_need before a group is written
 *     // its chunks arrive in options.received, here and on the other ranks
 *     gradient_sync_send(&sync, group, &pieces, err);
 *     // from there, once this rank's part of a group is summed
 *     gradient_sync_share(&sync, group, sum, arena, err);
 *     gradient_sync_finish(&sync, err);
 *     gradient_sync_wait(&sync, group, err);  // the shard at gradient_sync_shard is complete
 *
 * Sums complete at different points of the pass on different ranks. So sharing a sum never waits
 * for other ranks, which may be waiting for this one. Sums that the gather has no room for wait
 * until the next call, at the latest gradient_sync_finish.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_GRADIENT_SYNC_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_GRADIENT_SYNC_H

#include "trainer/parallel/param_gather.h"
#include "trainer/parallel/reduction/bucket_exchange.h"
#include "trainer/parallel/reduction/gradient_leaves.h"
#include "trainer/parallel/reduction/reduction.h"

struct gradient_sync_options {
    struct reduction_options reduction;
    /* As in bucket_exchange_options, like the fields below. */
    uint32_t pieces_max, pieces_total_max;
    bool sums;
    bucket_exchange_received *received;
    void *context;
};

/* A group whose part is summed but not yet gathered. */
struct gradient_sync_sum {
    uint64_t group;
    void *buffer;
};

/* Owner thread. */
struct gradient_sync {
    struct gradient_sync_options options;
    /* Owned; gather_comm is NULL if nothing is gathered. */
    struct comm *exchange_comm, *gather_comm;
    struct bucket_exchange *exchange;
    struct param_gather *gather; /* NULL, like sums, if no shard has more than one part */
    /* [groups_count]: sums_count of this step; the gather has begun sums_begun of them. */
    struct gradient_sync_sum *sums;
    uint64_t sums_count, sums_begun;
    struct gradient_leaves leaves; /* used only if each micro-batch is exchanged */
    /* Gradients of this rank's shards, if they are gathered and stored nowhere else. */
    void *shards;
};

/* Requires more than one rank. */
int gradient_sync_open(struct gradient_sync *sync, const struct gradient_sync_options *options,
                       struct err *err);
int gradient_sync_connect(struct gradient_sync *sync, struct err *err); /* collective */
int gradient_sync_open_exchange(struct gradient_sync *sync, struct err *err);
/* True if nothing is in progress. If not, after a failure, the buffers stay allocated until the
 * process exits (comm.h). */
bool gradient_sync_is_idle(const struct gradient_sync *sync);
void gradient_sync_close(struct gradient_sync *sync); /* safe on a zeroed one */

/* Returns where a pass writes the group's gradients. A rank that computes nothing in this round
 * blocks where the others do, so that it does not run ahead of its receives. */
int gradient_sync_need(struct gradient_sync *sync, uint64_t group, void **ret_gradients,
                       struct err *err);
int gradient_sync_send(struct gradient_sync *sync, uint64_t group,
                       const struct bucket_exchange_pieces *pieces, struct err *err);
/* sum: of this rank's part; may be at its place in the arena. arena: of all trained parameters; its
 * gradients of this group have been sent. NULL: gradient_sync has separate memory. Does nothing if
 * this rank holds only the part. */
int gradient_sync_share(struct gradient_sync *sync, uint64_t group, const void *sum, void *arena,
                        struct err *err);
int gradient_sync_finish(struct gradient_sync *sync, struct err *err);

/* gathers: whether other ranks sum parts of this rank's shard of the group. If so, shard returns
 * where the shard is assembled. */
bool gradient_sync_gathers(const struct gradient_sync *sync, uint64_t group);
void *gradient_sync_shard(const struct gradient_sync *sync, uint64_t group, void *arena);
int gradient_sync_wait(struct gradient_sync *sync, uint64_t group, struct err *err);
/* Time blocked in all of these calls. */
uint64_t gradient_sync_waited_ns(const struct gradient_sync *sync);

/* Hooks of reduction_ops, for methods with base.sync. */
int reduction_sync_connect(struct reduction *reduction, struct err *err);
int reduction_sync_open_exchange(struct reduction *reduction, struct err *err);
int reduction_sync_shard(struct reduction *reduction, uint64_t group, const void **ret_gradients,
                         struct err *err);
uint64_t reduction_sync_waited_ns(const struct reduction *reduction);

#endif
