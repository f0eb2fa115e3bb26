/*
 * weights — the weights of a run: what this rank keeps of them for the optimizer, and how they
 * become whole for the passes.
 *
 * The master weights are an arena of this rank's shards (partition.h). Passes use them in the
 * compute type, and either
 *
 * - whole, kept from step to step: once a shard is updated, it is gathered with the others'; or
 * - sharded: a group is gathered into a buffer when a pass needs it, some of the next ones ahead of
 *   their need. With few buffers it is forgotten soon after the pass is done with it; with one a
 *   group, when it is updated. Shards that are offloaded lie in pinned memory, in both types,
 *   whence groups come to the buffers on a stream of their own, also those that one rank holds
 *   alone.
 *
 * Where both types are one and the weights are whole, the master weights lie in the whole arena
 * themselves.
 *
 *     weights_init(&weights, &options, model, &stage, err);
 *     for each group: weights_fill_group(&weights, group, host_group, err);
 *         or a checkpoint's boxes at weights_shard, and then weights_refresh(&weights, err);
 *     for each step:
 *         for each pass: weights_begin_pass(&weights); its hooks call weights_need and weights_done
 *         for each group: update weights_shard and weights_compute_shard;
 *             weights_updated(&weights, group, err);
 *
 * All ranks make the same passes, computing or only walking through them.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_WEIGHTS_H
#define MILLRACE_TRAINER_PARALLEL_WEIGHTS_H

#include "comm/comm.h"
#include "trainer/models/model.h"
#include "trainer/ops/ops.h"
#include "trainer/parallel/param_gather.h"
#include "trainer/parallel/partition.h"

#include <stdbool.h>
#include <stdint.h>

struct weights_options {
    struct comm *comm; /* borrowed; the weights split their own from it */
    struct ops *ops;
    const struct partition *partition;
    bool shards;         /* nothing is whole between passes */
    bool reshards;       /* only as many buffers as passes need at a time; else one a group */
    bool pins_master;    /* master weights of their own lie in pinned memory */
    bool offloads;       /* of shards: they lie in pinned memory */
    uint32_t ahead;      /* groups that are gathered before they are needed */
    uint32_t groups_max; /* in buffers at a time, of shards; 0: as the others say */
    uint64_t timeout_ns; /* 0: none */
    const bool *in_turn; /* as gather.h's */
};

/* Owner thread. */
struct weights {
    struct weights_options options;
    struct comm *comm;           /* owned; NULL where nothing is gathered */
    struct param_gather *gather; /* NULL likewise */
    void *master;                /* shards; or all, where that is `whole` */
    void *
        /* shards in the compute type; NULL where the master's serve, or they lie in `whole` */
        compute;
    void *whole; /* all, in the compute type; NULL where they are gathered for passes */
    struct weights_buffer {
        void *memory;   /* of a group; the largest */
        uint64_t group; /* UINT64_MAX: none */
        bool is_used;   /* by a pass */
        bool is_coming; /* nobody has waited for what others hold of it */
        uint64_t turn;  /* of its last use */
        struct device_event *passed,
            *moved; /* of what is offloaded: its last use; what came to it */
    } * buffers;    /* [buffers_count] */
    uint32_t buffers_count;
    struct device_stream *
        /* on which buffers are filled: of what is offloaded its own, else that of the ops */
        stream;
    struct device_event *updated; /* all shards that are offloaded */
    uint64_t turns;
    uint64_t *order; /* groups as a forward and its backward pass need them */
    uint64_t order_count, order_next;
    const void **group_weights; /* [groups_count]: of model_memory */
    int status;                 /* of hooks, which can't return it */
    struct err err;
};

/* Allocates its own memory; then, collectively, finds the other ranks; then allocates what is
 * needed to talk to them. -EINVAL where groups_max is fewer than a pass uses at a time. */
int weights_init(struct weights *weights, const struct weights_options *options,
                 const struct model *model, const struct model_stage *stage, struct err *err);
int weights_connect(struct weights *weights, struct err *err);
int weights_open_gather(struct weights *weights, struct err *err);
void weights_deinit(struct weights *weights); /* safe on a zeroed one */

/* The initial values: of a group, master type, in host memory, of which this rank takes its
 * shard. */
int weights_fill_group(struct weights *weights, uint64_t group, const void *host_group,
                       struct err *err);
/* What this rank holds of the group: where its shard begins. The latter NULL where no copy of its
 * own follows. */
void *weights_shard(const struct weights *weights, uint64_t group);
void *weights_compute_shard(const struct weights *weights, uint64_t group);
/* All shards were written, in the master type alone: what follows from them is made. */
int weights_refresh(struct weights *weights, struct err *err);
/* The update of this rank's shard is queued, in both types. */
int weights_updated(struct weights *weights, uint64_t group, struct err *err);

/* Sets where the passes find weights; hooks are the caller's. Do passes have to call them? */
void weights_set_memory(struct weights *weights, struct model_memory *memory);
bool weights_want_hooks(const struct weights *weights);
/* Blocks until what whole weights were updated with has come. */
int weights_begin_pass(struct weights *weights, struct err *err);
/* Failures are remembered until weights_status. */
void weights_need(struct weights *weights, uint64_t group);
void weights_done(struct weights *weights, uint64_t group);
int weights_status(const struct weights *weights, struct err *err);
/* Nothing is in progress any more: before what all ranks do next is to end. Blocks. */
int weights_settle(struct weights *weights, struct err *err);

#endif
