/*
 * reduction — the canonical sum of the gradients of a step, over its micro-batches and over ranks: the same bits whatever the ranks.
 *
 * The leaves are the micro-batches; the tree is tree.h's. Each rank sums its part of each group (partition.h): it gets the others' pieces by
 * an exchange and pushes them in the order of micro-batches. The pieces are
 *
 * - once a step: a rank first sums its own neighbouring micro-batches, as far as they are subtrees of the whole tree;
 * - after each micro-batch: leaves, of ranks that take turns. Then no rank ever holds more of the gradients than some groups, and its own part.
 *
 *     reduction_begin(&r);
 *     for each round < reduction_rounds(&r):
 *         reduction_set_memory(&r, round, &memory);
 *         a backward pass, or where !reduction_computes(&r, round) a model_walk of one,
 *             whose hooks call reduction_need and reduction_done; reduction_is_plain(&r, round) wants none
 *         reduction_end_round(&r, round, err);
 *     reduction_finish(&r, err);                      // this rank's parts are summed
 *     sums of squares of reduction_part(&r, group)
 *     reduction_shard(&r, group, &gradients, err)     // what the optimizer takes: of what this rank holds
 *
 * The exchange of a group begins when its gradients are final, beside the rest of the backward pass.
 */
#ifndef MILLRACE_TRAINER_REDUCTION_H
#define MILLRACE_TRAINER_REDUCTION_H

#include "comm/comm.h"
#include "loader/loader.h"
#include "trainer/exchange.h"
#include "trainer/gather.h"
#include "trainer/model.h"
#include "trainer/partition.h"
#include "trainer/tree.h"

#include <stdbool.h>
#include <stdint.h>

struct reduction_options {
    struct comm *comm; /* borrowed; the reduction splits its own from it */
    struct ops *ops;
    const struct partition *partition;
    struct batching batching; /* whose the micro-batches are; interleaved: they are exchanged each */
    uint64_t bucket_bytes;    /* of an exchange: what of all parts travels at a time */
    uint64_t timeout_ns;      /* 0: none */
    /* An exchange ends before the pass goes on. Else its communicator and that of gathering take turns as time has it, which ranks that compare
     * their calls (comm_checked.h) can't. */
    bool in_turn;
};

/* Where each micro-batch is exchanged: groups of gradients in memory at a time, being written or sent. */
enum { REDUCTION_LEAVES = 3 };

/* Owner thread. */
struct reduction {
    struct reduction_options options;
    struct comm *exchange_comm, *gather_comm; /* owned; NULL with one rank */
    struct exchange *exchange;
    struct gather *gather;    /* NULL where no shard has more than one part */
    struct tree local;        /* leaves of all groups, this rank's; unused where each is exchanged */
    struct tree parts;        /* sums of this rank's parts; unused with one rank */
    struct tree *group_parts; /* [groups_count]: views of it */
    uint64_t *sizes;          /* of the pieces of all ranks, in order: leaves that each sums */
    uint32_t *counts;         /* [ranks]: of the pieces that each gives */
    uint32_t *last_counts;    /* the same in the last round */
    struct reduction_leaf {
        void *memory;   /* of the largest group */
        uint64_t group; /* whose gradients it holds or held */
        uint64_t turn;  /* number of the last that took it; 0: none did */
        bool is_taken;  /* it is being written */
    } leaves[REDUCTION_LEAVES];
    uint64_t turns;
    void **group_gradients; /* [groups_count]: of model_memory */
    void *shards; /* gradients of this rank's shards, where they are gathered and have no other place */
    uint64_t round;
    int status; /* of hooks, which can't return it */
    struct err err;
};

/* Allocates its own memory; then, collectively, finds the other ranks; then allocates what is needed to talk to them. */
int reduction_open(struct reduction *reduction, const struct reduction_options *options, struct err *err);
int reduction_connect(struct reduction *reduction, struct err *err);
int reduction_open_exchange(struct reduction *reduction, struct err *err);
void reduction_close(struct reduction *reduction); /* safe on a zeroed one */
/* Memory on the device, and pinned, of a reduction of such options. */
struct reduction_need {
    uint64_t device_bytes, pinned_bytes;
};
struct reduction_need reduction_need_of(const struct reduction_options *options);
/* Buffers of all gradients in it. */
uint32_t reduction_buffers(const struct reduction_options *options);

/* Rounds of a step: this rank's micro-batches; where each is exchanged, as many as the rank with the most has. */
uint64_t reduction_rounds(const struct reduction *reduction);
bool reduction_computes(const struct reduction *reduction, uint64_t round);
/* Does the pass of that round write to one arena and call no hooks, so that it may be recorded? */
bool reduction_is_plain(const struct reduction *reduction, uint64_t round);

void reduction_begin(struct reduction *reduction);
/* Sets where gradients go; hooks and weights are the caller's. */
void reduction_set_memory(struct reduction *reduction, uint64_t round, struct model_memory *memory);
/* To be called from the hooks of the backward pass, if it has any. Failures are remembered until the round ends. */
void reduction_need(struct reduction *reduction, uint64_t group);
void reduction_done(struct reduction *reduction, uint64_t group);
int reduction_end_round(struct reduction *reduction, uint64_t round, struct err *err);
int reduction_finish(struct reduction *reduction, struct err *err);

/* Queued sums of a group of which something is trained, until the next begin: of this rank's part, and of what it holds. The latter blocks
 * until it has come. */
const void *reduction_part(const struct reduction *reduction, uint64_t group);
int reduction_shard(struct reduction *reduction, uint64_t group, const void **ret_gradients, struct err *err);

/* How long this rank has waited for gradients of others, all together: what of their travels was not hidden behind the passes. */
uint64_t reduction_waited_ns(const struct reduction *reduction);

#endif
