/*
 * reduction — sums the gradients of a step over micro-batches and ranks.
 *
 * Each reduction method is a table of operations in its own file:
 *
 * | method | sum | same bits for any number of ranks |
 * |---|---|---|
 * | canonical | a tree over the micro-batches (tree.h), at the rank of a part (partition.h) | yes |
 * | fast | each rank accumulates its own micro-batches, the library adds ranks | no |
 * | powersgd | as fast, but matrices are exchanged as two thin ones (powersgd.h) | no |
 *
 * Gradients are exchanged once per step, when a rank's last micro-batch makes them final. With
 * interleaved batching they are exchanged after each micro-batch; then no rank holds more gradients
 * than a few groups and its own part.
 *
 *     reduction_open(&options, &r, err);
 *     reduction_connect(r, err);
 *     reduction_open_exchange(r, err);
 *     for each step:
 *         reduction_begin(r, step, err);
 *         for each round < reduction_rounds(r):
 *             reduction_set_memory(r, round, &memory);
 *             a backward pass, or if !reduction_computes(r, round) a model_walk of one,
 *                 whose hooks call reduction_need and reduction_done;
 *                 reduction_is_hookless(r, round) needs no hooks
 *             reduction_end_round(r, round, err);
 *         reduction_finish(r, err);                      // this rank's parts are summed
 *         sums of squares of reduction_part(r, group)
 *         // the optimizer's input: gradients of this rank's shard
 *         reduction_shard(r, group, &gradients, err)
 *     reduction_close(r);
 *
 * The exchange of a group begins when its gradients are final and overlaps with the rest of the
 * backward pass.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_REDUCTION_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_REDUCTION_H

#include "comm/comm.h"
#include "loader/loader.h"
#include "trainer/models/model.h"
#include "trainer/parallel/partition.h"
#include "trainer/parallel/reduction/bucket_exchange.h"
#include "trainer/parallel/reduction/powersgd.h"

#include <stdbool.h>
#include <stdint.h>

enum reduction_kind { REDUCTION_CANONICAL, REDUCTION_FAST, REDUCTION_POWERSGD };

struct reduction_options {
    enum reduction_kind kind;
    struct comm *comm; /* borrowed; the reduction splits its own communicators from it */
    struct ops *ops;
    const struct partition *partition;
    /* Of the micro-batches. Interleaved: gradients are exchanged after each. */
    struct batching batching;
    uint64_t bucket_bytes; /* of an exchange: bytes of all parts sent at a time */
    uint64_t timeout_ns;   /* 0: none */
    /* Type of gradients on the wire; sums are sent in the master type. */
    struct bucket_exchange_wire wire;
    struct powersgd_options powersgd;
    /* Borrowed. While set, an exchange completes before the pass continues. Otherwise its calls and
     * the gather's run in an order that depends on timing, which comm_checked_open does not allow.
     * NULL: never set. */
    const bool *serialized;
    /* Each rank keeps the sum of its own micro-batches. Nothing is exchanged, and the partition is
     * that of one rank. */
    bool is_local;
};

struct gradient_sync;
struct reduction;

/* A reduction method. Hooks are required unless marked optional. Groups passed to them have trained
 * parameters. */
struct reduction_ops {
    const char *name;
    /* Passes add to the gradients; otherwise they overwrite them. Only queried if gradients are not
     * exchanged after each micro-batch. */
    bool adds;
    uint32_t (*buffers)(const struct reduction_options *options); /* see reduction_buffers */
    /* Allocates the method's memory. The caller fills in the base of *ret_reduction. */
    int (*open)(const struct reduction_options *options, struct reduction **ret_reduction,
                struct err *err);
    /* Called with more than one rank. connect (collective) finds the other ranks; open_exchange
     * (optional) then allocates what communication needs. */
    int (*connect)(struct reduction *reduction, struct err *err);
    int (*open_exchange)(struct reduction *reduction, struct err *err);
    void (*close)(struct reduction *reduction);

    int (*begin)(struct reduction *reduction, uint64_t step, struct err *err);
    /* Returns where this round's gradients of all groups go and sets base.buffer to its number;
     * NULL: they go to base.group_gradients. Optional, like end_leaf; the default is base.arena. */
    void *(*leaf)(struct reduction *reduction);
    void (*end_leaf)(struct reduction *reduction); /* a plain round's buffer is filled */
    /* For rounds that are not plain: called before a group's gradients are written, and when they
     * are final. Both NULL: all rounds are plain; nothing is exchanged before finish. */
    int (*need_group)(struct reduction *reduction, uint64_t group, struct err *err);
    int (*done_group)(struct reduction *reduction, uint64_t group, struct err *err);
    int (*finish)(struct reduction *reduction, struct err *err);

    const void *(*part)(const struct reduction *reduction, uint64_t group);
    /* Called if base.sync is set. */
    int (*shard)(struct reduction *reduction, uint64_t group, const void **ret_gradients,
                 struct err *err);
    uint64_t (*waited_ns)(const struct reduction *reduction);
    /* Optional: see reduction_resume_warning; called with more than one rank. */
    const char *(*resume_warning)(const struct reduction *reduction, uint64_t step);
};

/* Reduction methods embed it as their first member. Owner thread. */
struct reduction {
    const struct reduction_ops *ops;
    struct reduction_options options;
    /* With several ranks that sum parts, else NULL: exchanges the parts. */
    struct gradient_sync *sync;
    void *arena;            /* gradients of all groups; NULL if each micro-batch is exchanged */
    uint64_t waited_ns;     /* without sync */
    void **group_gradients; /* [groups_count]: for model_memory */
    uint64_t round;
    uint32_t buffer; /* index below buffers_count: where the round's pass writes all gradients */
    int status;      /* of hooks, which cannot return it */
    struct err err;
};

/* open allocates memory; connect (collective) finds the other ranks; open_exchange allocates what
 * communication needs. */
int reduction_open(const struct reduction_options *options, struct reduction **ret_reduction,
                   struct err *err);
int reduction_connect(struct reduction *reduction, struct err *err);
int reduction_open_exchange(struct reduction *reduction, struct err *err);
void reduction_close(struct reduction *reduction); /* NULL is fine */

/* Number of buffers for all gradients that a rank has; 0: no buffer holds all. */
uint32_t reduction_buffers(const struct reduction_options *options);
/* Writes what makes the bits depend on the number of ranks: "reduction fast on 2 ranks"; "" if
 * nothing does. */
enum { REDUCTION_DEPENDENCE_BYTES = 128 };
void reduction_rank_dependence(const struct reduction_options *options, char *text, size_t bytes);
/* For a run resumed at this step: a sentence on the state of the sums that the checkpoint lacks;
 * NULL if none. numerics_id: from the checkpoint, contains the text of
 * reduction_rank_dependence. */
const char *reduction_resume_warning(const struct reduction *reduction, const char *numerics_id,
                                     uint64_t step);
/* Whether passes must add to the gradients (model_config). Does not use the partition. */
bool reduction_adds(const struct reduction_options *options);

/* Rounds of a step: the number of this rank's micro-batches; if each is exchanged, the maximum over
 * ranks. */
uint64_t reduction_rounds(const struct reduction *reduction);
bool reduction_computes(const struct reduction *reduction, uint64_t round);
/* Whether the round's pass writes to one arena and calls no hooks, so that it may be recorded. */
bool reduction_is_hookless(const struct reduction *reduction, uint64_t round);

/* step: number of earlier updates. */
int reduction_begin(struct reduction *reduction, uint64_t step, struct err *err);
/* Sets where gradients go; the caller sets hooks and weights. */
void reduction_set_memory(struct reduction *reduction, uint64_t round, struct model_memory *memory);
/* Call these from the hooks of the backward pass, if it has any. Failures are returned when the
 * round ends. */
void reduction_need(struct reduction *reduction, uint64_t group);
void reduction_done(struct reduction *reduction, uint64_t group);
int reduction_end_round(struct reduction *reduction, uint64_t round, struct err *err);
int reduction_finish(struct reduction *reduction, struct err *err);

/* The queued sums of a group with trainable parameters: those of this rank's part and those of
 * its shard. Valid until the next begin. The latter blocks until it has arrived. */
const void *reduction_part(const struct reduction *reduction, uint64_t group);
int reduction_shard(struct reduction *reduction, uint64_t group, const void **ret_gradients,
                    struct err *err);

/* Total time spent waiting for gradients of other ranks: the part of the exchanges not hidden by
 * the passes. */
uint64_t reduction_waited_ns(const struct reduction *reduction);

/* For the methods: whether there is one rank or is_local; whether each micro-batch is exchanged;
 * the number of micro-batches. */
bool reduction_is_alone(const struct reduction_options *options);
bool reduction_exchanges_each(const struct reduction_options *options);
uint64_t reduction_micros(const struct reduction_options *options);

extern const struct reduction_ops reduction_canonical_ops, reduction_fast_ops,
    reduction_powersgd_ops;

#endif
