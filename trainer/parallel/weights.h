/*
 * weights — the weights of a run: what this rank keeps for the optimizer, and how passes get whole
 * weights.
 *
 * The master weights are an arena of this rank's shards (partition.h). Passes use weights in the
 * compute type, which are either
 *
 * - whole, kept from step to step: an updated shard is gathered with the others; or
 * - sharded: a group is gathered into a buffer when a pass needs it, some groups ahead. With few
 *   buffers, one is reused soon after its pass; with one per group, it is valid until the update.
 *   Offloaded shards lie in pinned memory, in both types; groups are copied to the buffers on a
 *   separate stream, even those that one rank holds alone.
 *
 * If both types are the same and the weights are whole, the master weights are stored in the whole
 * arena.
 *
 *     weights_init(&weights, &options, model, &stage, err);
 *     for each group: weights_fill_group(&weights, group, host_group, err);
 *         or a checkpoint's boxes at weights_shard, and then weights_refresh(&weights, err);
 *     for each step:
 *         for each pass: weights_begin_pass(&weights); its hooks call weights_need and weights_done
 *         for each group: update weights_shard and weights_compute_shard;
 *             weights_updated(&weights, group, err);
 *
 * All ranks make the same passes; some only walk through them without computing.
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
    struct comm *comm; /* borrowed; the weights split their own communicator from it */
    struct ops *ops;
    const struct partition *partition;
    bool shards;         /* no whole weights between passes */
    bool reshards;       /* only the buffers that passes need at a time; else one per group */
    bool pins_master;    /* separate master weights lie in pinned memory */
    bool offloads;       /* requires shards: they lie in pinned memory */
    uint32_t ahead;      /* groups gathered before they are needed */
    uint32_t groups_max; /* with shards: groups in buffers at a time; 0: set by the other options */
    uint64_t timeout_ns; /* 0: none */
    const bool *serialized; /* as in param_gather.h */
};

/* Owner thread. */
struct weights {
    struct weights_options options;
    struct comm *comm;           /* owned; NULL if nothing is gathered */
    struct param_gather *gather; /* likewise */
    void *master;                /* shards, or the arena `whole` itself */
    /* Shards in the compute type; NULL if the master's or those in `whole` are used. */
    void *compute;
    void *whole; /* all weights in the compute type; NULL if gathered for passes */
    struct weights_buffer {
        void *memory;   /* size of the largest group */
        uint64_t group; /* UINT64_MAX: none */
        bool is_used;   /* in use by a pass */
        bool is_coming; /* the gather of the other shards is not awaited yet */
        uint64_t turn;  /* of the last use */
        /* Of offloaded weights: its last use; the copy into it. */
        struct device_event *passed, *moved;
    } * buffers; /* [buffers_count] */
    uint32_t buffers_count;
    /* Fills the buffers: a separate stream if offloaded, else that of the ops. */
    struct device_stream *stream;
    struct device_event *updated; /* of all offloaded shards */
    uint64_t turns;
    uint64_t *order; /* groups in the order of a forward and backward pass */
    uint64_t order_count, order_next;
    const void **group_weights; /* [groups_count]: for model_memory */
    int status;                 /* of hooks, which cannot return it */
    struct err err;
};

/* init allocates memory; connect (collective) finds the other ranks; open_gather allocates what
 * communication needs. -EINVAL if groups_max is less than a pass uses at a time. */
int weights_init(struct weights *weights, const struct weights_options *options,
                 const struct model *model, const struct model_stage *stage, struct err *err);
int weights_connect(struct weights *weights, struct err *err);
int weights_open_gather(struct weights *weights, struct err *err);
void weights_deinit(struct weights *weights); /* safe on a zeroed one */

/* Sets initial values. host_group: the whole group, master type, in host memory; this rank copies
 * its shard. */
int weights_fill_group(struct weights *weights, uint64_t group, const void *host_group,
                       struct err *err);
/* The start of this rank's shard of the group. weights_compute_shard returns NULL if there is no
 * separate copy. */
void *weights_shard(const struct weights *weights, uint64_t group);
void *weights_compute_shard(const struct weights *weights, uint64_t group);
/* Call after writing all shards in the master type only; derives everything else. */
int weights_refresh(struct weights *weights, struct err *err);
/* Call after queueing the update of this rank's shard in both types. */
int weights_updated(struct weights *weights, uint64_t group, struct err *err);

/* Sets where the passes find weights; the caller sets hooks. weights_want_hooks: whether passes
 * must call them. */
void weights_set_memory(struct weights *weights, struct model_memory *memory);
bool weights_want_hooks(const struct weights *weights);
/* With whole weights, blocks until updated shards have arrived. */
int weights_begin_pass(struct weights *weights, struct err *err);
/* Failures are returned by weights_status. */
void weights_need(struct weights *weights, uint64_t group);
void weights_done(struct weights *weights, uint64_t group);
int weights_status(const struct weights *weights, struct err *err);
/* Blocks until nothing is in progress. Call before waiting for another collective operation. */
int weights_drain(struct weights *weights, struct err *err);

#endif
