/*
 * weights — stores this rank's shards for the optimizer and provides whole weights to passes.
 *
 * The master weights are an arena of this rank's shards (partition.h). Passes use weights in the
 * compute type, which are either
 *
 * - whole: kept across steps; updated shards are gathered; or
 * - sharded: a group is gathered into a buffer before a pass needs it. Buffers are reused after the
 *   pass, or, with one per group, stay valid until the update. Offloaded shards are in pinned
 *   memory, in both types; a separate stream copies every group to a buffer.
 *
 * If both types are equal and the weights are whole, the master weights are stored in the whole
 * arena.
 *
 *     weights_init(&weights, &options, model, &stage, err);
 *     for each group: weights_fill_group(&weights, group, host_group, err);
 *         or load a checkpoint into weights_shard; weights_refresh(&weights, err);
 *     for each step:
 *         for each pass: weights_begin_pass(&weights);
 *             its hooks call weights_acquire and weights_release
 *         for each group: update weights_shard and weights_compute_shard;
 *             weights_finish_update(&weights, group, err);
 *
 * All ranks run the same passes; a rank without data calls the hooks without computing.
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
    struct comm *comm; /* borrowed; weights splits its own communicator from it */
    struct ops *ops;
    const struct partition *partition;
    bool shards;             /* weights are sharded between passes */
    bool reshards;           /* few buffers; else one per group */
    bool pins_master;        /* separate master weights are in pinned memory */
    bool offloads;           /* shards are in pinned memory; requires `shards` */
    uint32_t prefetch_count; /* in groups */
    uint32_t groups_max;     /* maximum number of buffers if `shards`; 0: default */
    uint64_t timeout_ns;     /* 0: none */
    const bool *serialized;  /* as in param_gather.h */
};

/* Owner thread. */
struct weights {
    struct weights_options options;
    struct comm *comm; /* owned; NULL if nothing is gathered */
    struct param_gather *gather;
    void *master; /* shards; or equals `whole` */
    /* Shards in the compute type; NULL if stored in `master` or `whole`. */
    void *compute;
    void *whole; /* in the compute type; NULL if sharded */
    struct weights_buffer {
        void *memory;   /* sized for the largest group */
        uint64_t group; /* UINT64_MAX: none */
        bool is_used;
        bool is_gathering;
        uint64_t last_use;
        /* With offloading: record the last use, and the copy into the buffer. */
        struct device_event *used_event, *copied_event;
    } * buffers; /* [buffers_count] */
    uint32_t buffers_count;
    /* Fills the buffers: a separate stream with offloading, else the stream of ops. */
    struct device_stream *stream;
    struct device_event *updated_event; /* with offloading */
    uint64_t uses_count;
    uint64_t *group_order; /* groups in the order of a forward and backward pass */
    uint64_t order_count, order_next;
    const void **group_weights; /* [groups_count]: for model_memory */
    int status;                 /* first failure of a hook; hooks cannot return it */
    struct err err;
};

/* connect is collective; open_gather allocates communication memory. -EINVAL if groups_max is too
 * small for a pass. */
int weights_init(struct weights *weights, const struct weights_options *options,
                 const struct model *model, const struct model_stage *stage, struct err *err);
int weights_connect(struct weights *weights, struct err *err);
int weights_open_gather(struct weights *weights, struct err *err);
void weights_deinit(struct weights *weights); /* safe on a zeroed struct */

/* Sets initial values. host_group: the whole group, master type, host memory. */
int weights_fill_group(struct weights *weights, uint64_t group, const void *host_group,
                       struct err *err);
/* Start of this rank's shard. weights_compute_shard: NULL if there is no separate copy. */
void *weights_shard(const struct weights *weights, uint64_t group);
void *weights_compute_shard(const struct weights *weights, uint64_t group);
/* Call after writing all shards in the master type; derives the compute type. */
int weights_refresh(struct weights *weights, struct err *err);
/* Call after queueing the update of this rank's shard in both types. */
int weights_finish_update(struct weights *weights, uint64_t group, struct err *err);

/* Sets the weights that passes read. The caller sets the hooks, which passes must call if
 * weights_require_hooks. */
void weights_set_memory(struct weights *weights, struct model_memory *memory);
bool weights_require_hooks(const struct weights *weights);
/* With whole weights, blocks until all updated shards are gathered. */
int weights_begin_pass(struct weights *weights, struct err *err);
/* weights_status returns failures. */
void weights_acquire(struct weights *weights, uint64_t group);
void weights_release(struct weights *weights, uint64_t group);
int weights_status(const struct weights *weights, struct err *err);
/* Blocks until nothing is in progress. Call before waiting for another collective operation. */
int weights_drain(struct weights *weights, struct err *err);

#endif
