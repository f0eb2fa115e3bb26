/*
 * gradient_sync — sends parts of the gradients to the ranks that sum them, then sends the sums to
 * all ranks that hold the same shard.
 *
 *     gradient_sync_open(&sync, &options, err);
 *     gradient_sync_connect(...); gradient_sync_open_exchange(...);
 *     if micro-batches are exchanged: gradient_leaves_acquire before a pass writes a group
 *     // all ranks pass received chunks to options.on_received
 *     gradient_sync_send(&sync, group, &pieces, err);
 *     // once options.on_received has summed this rank's part
 *     gradient_sync_share(&sync, group, sum, arena, err);
 *     gradient_sync_finish(&sync, err);
 *     gradient_sync_wait(&sync, group, arena, &shard, err);
 *
 * Ranks complete sums at different points of the pass, so gradient_sync_share must not wait for
 * other ranks. It queues sums that do not fit; later calls, at the latest gradient_sync_finish,
 * start them.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_GRADIENT_SYNC_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_GRADIENT_SYNC_H

#include "trainer/parallel/param_gather.h"
#include "trainer/parallel/reduction/bucket_exchange.h"
#include "trainer/parallel/reduction/gradient_leaves.h"
#include "trainer/parallel/reduction/reduction_options.h"

struct gradient_sync_options {
    struct reduction_options reduction;
    /* The remaining fields are as in bucket_exchange_options. */
    uint32_t pieces_max, pieces_total_max;
    bool sums;
    bucket_exchange_on_received *on_received;
    void *context;
};

struct gradient_sync_sum {
    uint64_t group;
    void *buffer;
};

/* Owner thread. */
struct gradient_sync {
    struct gradient_sync_options options;
    /* Owned. */
    struct comm *exchange_comm, *gather_comm;
    struct bucket_exchange *exchange;
    /* NULL, like gather_comm and sums, if no shard has several parts. */
    struct param_gather *gather;
    /* [groups_count]: parts summed in this step; gathers of the first begun_sums_count began. */
    struct gradient_sync_sum *sums;
    uint64_t sums_count, begun_sums_count;
    /* Used if micro-batches are exchanged. A rank without a micro-batch in a round must acquire
     * each group too, so that it does not run ahead of its receives. */
    struct gradient_leaves leaves;
    /* Gathered gradients of this rank's shards; NULL if stored in the arena or not gathered. */
    void *shards;
};

/* Requires more than one rank. */
int gradient_sync_open(struct gradient_sync *sync, const struct gradient_sync_options *options,
                       struct err *err);
int gradient_sync_connect(struct gradient_sync *sync, struct err *err); /* collective */
int gradient_sync_open_exchange(struct gradient_sync *sync, struct err *err);
/* False if operations are in progress; the buffers are then never freed (comm.h). */
bool gradient_sync_is_idle(const struct gradient_sync *sync);
void gradient_sync_close(struct gradient_sync *sync); /* safe on a zeroed struct */

int gradient_sync_send(struct gradient_sync *sync, uint64_t group,
                       const struct bucket_exchange_pieces *pieces, struct err *err);
/* Shares the sum of this rank's part. arena: the gradients of all trained parameters; this group's
 * must have been sent; may contain the sum. NULL: gradient_sync uses its own memory. */
int gradient_sync_share(struct gradient_sync *sync, uint64_t group, const void *sum, void *arena,
                        struct err *err);
int gradient_sync_finish(struct gradient_sync *sync, struct err *err);

/* Blocks until the gradients of this rank's shard are gathered. Leaves *ret_shard unchanged if no
 * other rank sums a part of the shard. arena: as above. */
int gradient_sync_wait(struct gradient_sync *sync, uint64_t group, void *arena, void **ret_shard,
                       struct err *err);
/* Total time blocked in the calls above. */
uint64_t gradient_sync_waited_ns(const struct gradient_sync *sync);

#endif
