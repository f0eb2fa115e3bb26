/*
 * delivery — parts of gradients on their way to the ranks that sum them, and sums to all ranks that
 * hold the same shard: what ways of summing have in common whose ranks sum parts.
 *
 *     delivery_open(&delivery, &options, err); delivery_connect(...); delivery_open_exchange(...);
 *     where each micro-batch is exchanged: delivery_need before a group is written
 *     // its chunks come to options.received, here and on the others
 *     delivery_send(&delivery, group, &pieces, err);
 *     // from there, once this rank's part of a group is summed
 *     delivery_share(&delivery, group, sum, arena, err);
 *     delivery_finish(&delivery, err);
 *     delivery_wait(&delivery, group, err);  // the shard at delivery_shard is whole
 *
 * Sums come about when pieces come, at one place of the pass here, at another there. So none waits
 * there for the other ranks, which may wait for this one to go on: sums for which the gather has no
 * room wait for the next call, and at last for delivery_finish.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_DELIVERY_H
#define MILLRACE_TRAINER_PARALLEL_DELIVERY_H

#include "trainer/parallel/bucket_exchange.h"
#include "trainer/parallel/param_gather.h"
#include "trainer/parallel/leaves.h"
#include "trainer/parallel/reduction.h"

struct delivery_options {
    struct reduction_options reduction;
    uint32_t pieces_max, pieces_total_max; /* of exchange_options, as the next ones */
    bool sums;
    bucket_exchange_received *received;
    void *context;
};

/* A group whose part is summed, and which is not gathered yet. */
struct delivery_sum {
    uint64_t group;
    void *buffer;
};

/* Owner thread. */
struct delivery {
    struct delivery_options options;
    struct comm *exchange_comm, *gather_comm; /* owned; NULL where nothing is gathered */
    struct bucket_exchange *exchange;
    struct param_gather *gather; /* NULL where no shard has more than one part; as are sums */
    struct delivery_sum
        *sums; /* [groups_count]: of this step, of which so many are being gathered */
    uint64_t sums_count, sums_begun;
    struct leaves leaves; /* unused unless each micro-batch is exchanged */
    void *
        /* gradients of this rank's shards, where they are gathered and have no other place */
        shards;
};

/* Of more ranks than one. */
int delivery_open(struct delivery *delivery, const struct delivery_options *options,
                  struct err *err);
int delivery_connect(struct delivery *delivery, struct err *err); /* collective */
int delivery_open_exchange(struct delivery *delivery, struct err *err);
/* Nothing is in progress: else, after a failure, what was sent from and gathered to stays until the
 * process exits (comm.h). */
bool delivery_is_idle(const struct delivery *delivery);
void delivery_close(struct delivery *delivery); /* safe on a zeroed one */

/* Where a pass writes the group's gradients; a rank that computes nothing in this round waits where
 * the others do, so that none runs away from what it still has to receive. */
int delivery_need(struct delivery *delivery, uint64_t group, void **ret_gradients, struct err *err);
int delivery_send(struct delivery *delivery, uint64_t group, const struct bucket_exchange_pieces *pieces,
                  struct err *err);
/* arena: of all that is trained, whose gradients of this group were sent; NULL: the delivery has
 * its own place. sum: of this rank's part; may be at its place in the arena. Nothing where the part
 * is all that this rank holds. */
int delivery_share(struct delivery *delivery, uint64_t group, const void *sum, void *arena,
                   struct err *err);
int delivery_finish(struct delivery *delivery, struct err *err);

/* Do others sum parts of what this rank holds of the group? Then where that is put together. */
bool delivery_gathers(const struct delivery *delivery, uint64_t group);
void *delivery_shard(const struct delivery *delivery, uint64_t group, void *arena);
int delivery_wait(struct delivery *delivery, uint64_t group, struct err *err);
uint64_t delivery_waited_ns(const struct delivery *delivery); /* blocked in all of these */

#endif
