/*
 * reduction — sums the gradients of a step over micro-batches and ranks.
 *
 * Each method is a table of operations in its own file:
 *
 * | method | sum | same bits for any number of ranks |
 * |---|---|---|
 * | canonical | a tree over micro-batches (tree.h), at each part's rank (partition.h) | yes |
 * | fast | each rank accumulates its micro-batches; the library sums over ranks | no |
 * | powersgd | like fast, with low-rank matrices (powersgd.h) | no |
 *
 * Gradients are exchanged once per step, during a rank's last micro-batch. With interleaved
 * batching they are exchanged after each micro-batch; then a rank holds only its part and the
 * gradients of a few groups.
 *
 *     reduction_open(&options, &r, err);
 *     reduction_connect(r, err);
 *     reduction_open_exchange(r, err);
 *     for each step:
 *         reduction_begin(r, step, err);
 *         for each round < reduction_rounds(r):
 *             reduction_set_memory(r, round, &memory);
 *             a backward pass, or a model_walk if !reduction_has_micro_batch(r, round);
 *                 hooks call reduction_acquire and reduction_release,
 *                 unless reduction_is_hookless(r, round)
 *             reduction_end_round(r, round, err);
 *         reduction_finish(r, err);                      // this rank's parts are summed
 *         reduction_part(r, group)                       // for the norm
 *         reduction_shard(r, group, &gradients, err)     // for the optimizer
 *     reduction_close(r);
 *
 * The exchange of a group begins when its gradients are final and overlaps with the rest of the
 * backward pass.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_REDUCTION_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_REDUCTION_H

#include "trainer/models/model.h"
#include "trainer/parallel/reduction/reduction_options.h"

struct gradient_sync;
struct reduction;

/* A reduction method. Hooks are required unless marked optional, and are called only for groups
 * with trained parameters. */
struct reduction_ops {
    const char *name;
    /* Passes add to the gradients unless micro-batches are exchanged. */
    bool accumulates;
    uint32_t (*buffers_count)(const struct reduction_options *options);
    /* reduction_open sets the base of *ret_reduction. */
    int (*open)(const struct reduction_options *options, struct reduction **ret_reduction,
                struct err *err);
    /* Collective; called only with several ranks and without base.sync. */
    int (*connect)(struct reduction *reduction, struct err *err);
    void (*close)(struct reduction *reduction);

    int (*begin)(struct reduction *reduction, uint64_t step, struct err *err);
    /* Optional, like end_leaf. Returns the buffer for this round's gradients of all groups and sets
     * base.buffer to its index. If it returns NULL, base.group_gradients is used. Default:
     * base.arena. */
    void *(*get_leaf)(struct reduction *reduction);
    void (*end_leaf)(struct reduction *reduction); /* after a hookless round */
    /* Called before a pass writes a group's gradients, and when they are final, except in hookless
     * rounds. Both NULL: no round has hooks. */
    int (*acquire_group)(struct reduction *reduction, uint64_t group, struct err *err);
    int (*release_group)(struct reduction *reduction, uint64_t group, struct err *err);
    int (*finish)(struct reduction *reduction, struct err *err);

    const void *(*get_part)(const struct reduction *reduction, uint64_t group);
    /* Optional; called only with several ranks. */
    const char *(*resume_warning)(const struct reduction *reduction, uint64_t step);
};

/* The first member of each method's struct. Owner thread. */
struct reduction {
    const struct reduction_ops *ops;
    struct reduction_options options;
    /* NULL unless several ranks sum parts. */
    struct gradient_sync *sync;
    void *arena;            /* gradients of all groups; NULL if micro-batches are exchanged */
    uint64_t waited_ns;     /* without sync */
    void **group_gradients; /* [groups_count]: for model_memory */
    uint64_t round;
    uint32_t buffer; /* index of the buffer that this round's pass writes */
    int status;      /* first failure of a hook; hooks cannot return it */
    struct err err;
};

/* connect is collective; open_exchange allocates communication memory. */
int reduction_open(const struct reduction_options *options, struct reduction **ret_reduction,
                   struct err *err);
int reduction_connect(struct reduction *reduction, struct err *err);
int reduction_open_exchange(struct reduction *reduction, struct err *err);
void reduction_close(struct reduction *reduction); /* NULL is fine */

/* Number of buffers that hold the gradients of all groups. */
uint32_t reduction_buffers_count(const struct reduction_options *options);
/* Describes why the bits depend on the number of ranks: "reduction fast on 2 ranks"; "" if they do
 * not. */
enum { REDUCTION_DEPENDENCE_BYTES = 128 };
void reduction_describe_rank_dependence(const struct reduction_options *options, char *text,
                                        size_t bytes);
/* Describes reduction state that the checkpoint of `step` lacks; NULL if none. numerics_id: from
 * the checkpoint; contains the text of reduction_describe_rank_dependence. */
const char *reduction_resume_warning(const struct reduction *reduction, const char *numerics_id,
                                     uint64_t step);
/* True if passes must add to the gradients (model_config). Does not use the partition. */
bool reduction_accumulates(const struct reduction_options *options);

/* Rounds per step: the number of this rank's micro-batches, or, if micro-batches are exchanged, the
 * maximum over ranks. */
uint64_t reduction_rounds(const struct reduction *reduction);
bool reduction_has_micro_batch(const struct reduction *reduction, uint64_t round);
/* True if the round's pass writes to one arena and calls no hooks, so a graph can record it. */
bool reduction_is_hookless(const struct reduction *reduction, uint64_t round);

/* step: number of earlier updates. */
int reduction_begin(struct reduction *reduction, uint64_t step, struct err *err);
/* Sets the gradients; the caller sets hooks and weights. */
void reduction_set_memory(struct reduction *reduction, uint64_t round, struct model_memory *memory);
/* Hooks of the backward pass. reduction_end_round returns failures. */
void reduction_acquire(struct reduction *reduction, uint64_t group);
void reduction_release(struct reduction *reduction, uint64_t group);
int reduction_end_round(struct reduction *reduction, uint64_t round, struct err *err);
int reduction_finish(struct reduction *reduction, struct err *err);

/* The queued sums of this rank's part and shard of a group with trained parameters, valid until the
 * next begin. reduction_shard blocks until the shard is gathered. */
const void *reduction_part(const struct reduction *reduction, uint64_t group);
int reduction_shard(struct reduction *reduction, uint64_t group, const void **ret_gradients,
                    struct err *err);

/* Total time blocked on other ranks, not hidden by the passes. */
uint64_t reduction_waited_ns(const struct reduction *reduction);

extern const struct reduction_ops reduction_canonical_ops, reduction_fast_ops,
    reduction_powersgd_ops;

#endif
