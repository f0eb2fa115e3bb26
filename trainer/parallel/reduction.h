/*
 * reduction — the sum of the gradients of a step, over its micro-batches and over ranks.
 *
 * How they are summed is a table of operations, one file a way:
 *
 * | way | sum | the same bits whatever the ranks |
 * |---|---|---|
 * | canonical | a tree over the micro-batches (tree.h), at the rank of a part (partition.h) | yes |
 * | fast | each rank adds its own as they come, and the library adds ranks | no |
 * | powersgd | the same, but of matrices two thin ones travel (powersgd.h) | no |
 *
 * Gradients travel once a step, when a rank's last micro-batch makes them final; or, where the
 * batching is interleaved, after each micro-batch. Then no rank ever holds more of the gradients
 * than some groups, and its own part.
 *
 *     reduction_open(&options, &r, err);
 *     reduction_connect(r, err);
 *     reduction_open_exchange(r, err);
 *     for each step:
 *         reduction_begin(r, step, err);
 *         for each round < reduction_rounds(r):
 *             reduction_set_memory(r, round, &memory);
 *             a backward pass, or where !reduction_computes(r, round) a model_walk of one,
 *                 whose hooks call reduction_need and reduction_done;
 *                 reduction_is_plain(r, round) wants none
 *             reduction_end_round(r, round, err);
 *         reduction_finish(r, err);                      // this rank's parts are summed
 *         sums of squares of reduction_part(r, group)
 *         // what the optimizer takes: of what this rank holds
 *         reduction_shard(r, group, &gradients, err)
 *     reduction_close(r);
 *
 * The exchange of a group begins when its gradients are final, beside the rest of the backward
 * pass.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_H

#include "comm/comm.h"
#include "loader/loader.h"
#include "trainer/models/model.h"
#include "trainer/parallel/bucket_exchange.h"
#include "trainer/parallel/partition.h"
#include "trainer/parallel/powersgd.h"

#include <stdbool.h>
#include <stdint.h>

enum reduction_kind { REDUCTION_CANONICAL, REDUCTION_FAST, REDUCTION_POWERSGD };

struct reduction_options {
    enum reduction_kind kind;
    struct comm *comm; /* borrowed; the reduction splits its own from it */
    struct ops *ops;
    const struct partition *partition;
    struct batching
        batching;          /* whose the micro-batches are; interleaved: they are exchanged each */
    uint64_t bucket_bytes; /* of an exchange: what of all parts travels at a time */
    uint64_t timeout_ns;   /* 0: none */
    struct bucket_exchange_wire
        wire; /* how gradients travel to those who sum them; sums travel in the master type */
    struct powersgd_options powersgd;
    /* Borrowed; while it is set, an exchange ends before the pass goes on. Else its communicator
     * and that of gathering take turns as time has it, which ranks that compare their calls
     * (comm_checked.h) can't. NULL: never set. */
    const bool *in_turn;
    bool
        /* each rank keeps the sum of its own micro-batches: nothing travels, and the partition is
         * that of one rank */
        is_local;
};

struct reduction;

/* A way of summing. Hooks are required unless said; groups are such of which something is
 * trained. */
struct reduction_ops {
    const char *name;
    /* Passes add to what gradients hold; else they write. Only asked where nothing is exchanged
     * after each micro-batch. */
    bool adds;
    uint32_t (*buffers)(const struct reduction_options *options); /* see reduction_buffers */
    /* Gives a reduction, whose base is filled in: its own memory. */
    int (*open)(const struct reduction_options *options, struct reduction **ret_reduction,
                struct err *err);
    /* Both optional, of more ranks than one: collectively finds the others; then allocates what is
     * needed to talk to them. */
    int (*connect)(struct reduction *reduction, struct err *err);
    int (*open_exchange)(struct reduction *reduction, struct err *err);
    void (*close)(struct reduction *reduction);

    int (*begin)(struct reduction *reduction, uint64_t step, struct err *err);
    /* Where the gradients of all groups go in this round, which base.buffer is set to tell; NULL:
     * base.group_gradients has it. */
    void *(*leaf)(struct reduction *reduction);
    void (*end_leaf)(struct reduction *reduction); /* a plain round's is filled */
    /* Of rounds that are not plain: before gradients of the group are written, and once they are
     * final. Both NULL: all rounds are plain, and nothing travels before finish. */
    int (*need_group)(struct reduction *reduction, uint64_t group, struct err *err);
    int (*done_group)(struct reduction *reduction, uint64_t group, struct err *err);
    int (*finish)(struct reduction *reduction, struct err *err);

    const void *(*part)(const struct reduction *reduction, uint64_t group);
    int (*shard)(struct reduction *reduction, uint64_t group, const void **ret_gradients,
                 struct err *err);
    uint64_t (*waited_ns)(const struct reduction *reduction);
    /* Optional: see reduction_tell_lost, of more ranks than one. */
    const char *(*tell_lost)(const struct reduction *reduction, uint64_t step);
};

/* Ways of summing embed it first. Owner thread. */
struct reduction {
    const struct reduction_ops *ops;
    struct reduction_options options;
    void **group_gradients; /* [groups_count]: of model_memory */
    uint64_t round;
    uint32_t buffer; /* of all gradients, of buffers_count: what a pass of the round writes to */
    int status;      /* of hooks, which can't return it */
    struct err err;
};

/* Allocates its own memory. Then the calls of the table's connect and open_exchange. */
int reduction_open(const struct reduction_options *options, struct reduction **ret_reduction,
                   struct err *err);
int reduction_connect(struct reduction *reduction, struct err *err);
int reduction_open_exchange(struct reduction *reduction, struct err *err);
void reduction_close(struct reduction *reduction); /* NULL is fine */

/* Buffers of all gradients that a rank has; 0: none holds all. */
uint32_t reduction_buffers(const struct reduction_options *options);
/* What gives up the promise of the same bits whatever the ranks: "reduction fast on 2 ranks"; ""
 * where nothing does. */
enum { REDUCTION_LOSS_BYTES = 128 };
void reduction_tell_loss(const struct reduction_options *options, char *text, size_t bytes);
/* What was not saved of sums, where a run goes on after so many steps: a sentence, NULL for
 * nothing. numerics_id: of the checkpoint, which has the words above. */
const char *reduction_tell_lost(const struct reduction *reduction, const char *numerics_id,
                                uint64_t step);
/* Do passes have to add to the gradients (model_config)? Asks nothing of the partition. */
bool reduction_adds(const struct reduction_options *options);

/* Rounds of a step: this rank's micro-batches; where each is exchanged, as many as the rank with
 * the most has. */
uint64_t reduction_rounds(const struct reduction *reduction);
bool reduction_computes(const struct reduction *reduction, uint64_t round);
/* Does the pass of that round write to one arena and call no hooks, so that it may be recorded? */
bool reduction_is_plain(const struct reduction *reduction, uint64_t round);

/* step: updates before this one. */
int reduction_begin(struct reduction *reduction, uint64_t step, struct err *err);
/* Sets where gradients go; hooks and weights are the caller's. */
void reduction_set_memory(struct reduction *reduction, uint64_t round, struct model_memory *memory);
/* To be called from the hooks of the backward pass, if it has any. Failures are remembered until
 * the round ends. */
void reduction_need(struct reduction *reduction, uint64_t group);
void reduction_done(struct reduction *reduction, uint64_t group);
int reduction_end_round(struct reduction *reduction, uint64_t round, struct err *err);
int reduction_finish(struct reduction *reduction, struct err *err);

/* Queued sums of a group of which something is trained, until the next begin: of this rank's part,
 * and of what it holds. The latter blocks until it has come. */
const void *reduction_part(const struct reduction *reduction, uint64_t group);
int reduction_shard(struct reduction *reduction, uint64_t group, const void **ret_gradients,
                    struct err *err);

/* How long this rank has waited for gradients of others, all together: what of their travels was
 * not hidden behind the passes. */
uint64_t reduction_waited_ns(const struct reduction *reduction);

/* For the ways: is there one rank alone, or as if it were; is each micro-batch exchanged; how many
 * are there. */
bool reduction_is_alone(const struct reduction_options *options);
bool reduction_exchanges_each(const struct reduction_options *options);
uint64_t reduction_micros(const struct reduction_options *options);

extern const struct reduction_ops reduction_canonical_ops, reduction_fast_ops,
    reduction_powersgd_ops;

#endif
