/*
 * run — everything that one training run holds, and its acts: a step, an evaluation, its state.
 * Internal to trainer/.
 *
 * Life: run_open (from the configuration, then from a checkpoint if there is one), run_step again
 * and again, run_close.
 */
#ifndef MILLRACE_TRAINER_RUN_RUN_H
#define MILLRACE_TRAINER_RUN_RUN_H

#include "base/err.h"
#include "base/exact_sum.h"
#include "ckpt/ckpt.h"
#include "comm/comm.h"
#include "comm/comm_counted.h"
#include "loader/loader.h"
#include "trainer/config/epochs.h"
#include "trainer/models/batch_upload.h"
#include "trainer/models/model.h"
#include "trainer/ops/ops_graph.h"
#include "trainer/ops/scaler.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/schedule.h"
#include "trainer/parallel/rank_sum.h"
#include "trainer/parallel/reduction.h"
#include "trainer/parallel/weights.h"
#include "trainer/report/metrics.h"
#include "trainer/report/range.h"
#include "trainer/run/data_schema.h"
#include "trainer/run/early_stop.h"
#include "trainer/run/trainer_options.h"
#include "trainer/run/triggers.h"

#include <assert.h>

/* What one or more steps added up to. Exact, hence the same for any ranks. */
struct step_totals {
    struct exact_sum losses; /* nats, over valid items */
    uint64_t valid_count;    /* items (tokens of text) with a target */
    uint64_t correct_count;
    uint64_t samples_count;
    double gradient_norm; /* of the last step, before clipping, of the mean loss */
    double lr;            /* of the last step */
};

/* What ranks add up: exact integers, so that the order does not matter. Lies in device memory while
 * it is gathered. */
struct run_words {
    int64_t valid_count, correct_count, samples_count;
    int64_t bad_count;  /* samples that could not be used, since the data was opened */
    int64_t stop, save; /* ranks that wish it */
    int64_t saving;     /* ranks on which a save is in progress */
    struct exact_sum losses, squares;
};

static_assert(sizeof(struct run_words) == (7 + 2 * EXACT_SUM_WORDS) * sizeof(int64_t),
              "words without padding");

/* Of a step, in device memory while it is made: what is gathered, and what was decided on it. */
struct step_record {
    struct run_words words;
    struct update_gate gate;
    struct time_parts times; /* of the device itself, since the run began; where ops tell them */
};

/* A step that is queued and of which the host has not heard. */
struct queued_step {
    uint64_t step; /* its number, from 1 */
    int64_t valid_count, samples_count;
    struct step_record *record; /* pinned; what the device made of it, after the event */
    struct device_event *ended;
};

enum { QUEUED_STEPS_MAX = UPDATE_GATE_AHEAD_MAX + 1 };

/* The last evaluation. */
struct evaluation {
    bool present;
    uint64_t step;
    uint64_t valid_count; /* not kept in a checkpoint */
    double loss, accuracy;
};

/* Checkpoints whose tensors turned out to be damaged when they were to be resumed from: the run is
 * opened again without them. */
struct damaged_steps {
    uint64_t below; /* only steps before this one are resumed from; UINT64_MAX: any */
    char first[IO_PATH_BYTES_MAX]; /* the first that was found, hence the newest; "": none */
};

struct run;

/* Checks, before the run allocates what its model takes, that the device has the memory. trains:
 * false for an evaluation, which has no gradients and moments. -ENOMEM with advice. */
typedef int run_memory_check(const struct run *run, bool trains, struct err *err);

/* Owner thread. */
struct run {
    const struct trainer_options *options; /* borrowed */
    run_memory_check *check_memory;        /* NULL: memory is not checked */
    struct train_config *given; /* owned: the one given, with the batch as the run began with it */
    struct train_config *
        /* owned: the same with classes and vocabulary filled in, and the batch of the epoch */
        config;
    struct io *io; /* borrowed */

    struct comm *comm; /* the ranks', whose bytes are counted */
    struct comm *plain_comm,
        *own_comm; /* the same, uncounted; where it was opened for the run, and is closed with it */
    struct comm *bulk; /* what weights and gradients travel by, counted: comm, or over nccl */
    struct comm *nccl; /* between GPUs; NULL: there is none */
    unsigned cpus;     /* this rank's share of its machine's processors; 0: all */
    struct comm_counts traffic;
    struct comm_traffic step_traffic, mean_traffic; /* of the newest step, and mean of weights */
    struct device *device;
    struct ops *ops;
    struct model *model;
    const struct params *params; /* the model's */
    struct model_stage stage;
    struct batching batching; /* of training */

    uint32_t shards;            /* in how many the optimizer's state is cut: see strategy.h */
    struct partition partition; /* of the parameters: who holds what */
    struct weights weights;
    struct model_activations activations;
    double *losses; /* of a micro-batch, as are hits; device memory */
    uint8_t *correct;
    struct step_record *device_record,
        *host_records;            /* of the newest step; pinned, [QUEUED_STEPS_MAX] */
    struct run_words *host_words; /* pinned */
    struct queued_step queued[QUEUED_STEPS_MAX]; /* a ring: step n is n % QUEUED_STEPS_MAX */
    uint64_t queued_count;
    struct reduction *reduction;
    struct ops_graph passes; /* of a micro-batch: by where its input lies and which leaf it fills */
    struct ops_graph sums;   /* of squares */
    struct optimizer optimizer;
    struct schedule schedule;
    struct scaler scaler;

    struct loader *loader; /* training data */
    struct loader_source
        mix[MIX_DATASETS_MAX]; /* what it is opened with; texts are the configuration's */
    struct loader_shape shape;
    /* What labels and tokens mean to the model, by which evaluations map labels: as the training
     * data has it, or, of an evaluation alone, as the checkpoint recorded it. */
    struct loader_schema reference;
    struct data_schema recorded; /* by the checkpoint that an evaluation is of */
    uint64_t delivered_count;    /* samples of all ranks, since it was opened */
    struct ckpt_saver *saver;
    struct ckpt_tensor *tensors; /* what the saver saves */
    char *tensor_names;
    uint64_t tensors_count;
    struct metrics *metrics;
    struct sync_check *sync_check; /* NULL: nothing is compared */
    struct rank_sum mean; /* of weights and moments that ranks update by themselves; unused else */
    bool weights_differ;  /* between ranks, since the last mean */
    bool moments_differ;  /* likewise */

    /* What goes between ranks ends before the passes go on: where they compare their calls, and in
     * the first step by NCCL, which is when kernels are loaded: the driver may wait for all that
     * the device has, NCCL's kernels among it, which wait for other ranks. */
    bool in_turn;
    bool is_dry_run; /* nothing is read or computed: see dry_run.h */
    struct damaged_steps damaged;
    struct batch_upload upload; /* micro-batches to the device */
    uint64_t step, steps;       /* queued, of all; finished where nothing is in the queue */
    struct epochs epochs;
    /* After it the batch is another one: the run is saved, closed and opened anew, by the
     * checkpoint. steps, where it stays. */
    uint64_t turn_step;
    bool stop_requested; /* on any rank, as the last reduction said */
    bool time_is_up;     /* the clock of this rank, the first, asked for it */
    bool save_requested; /* by the first rank's clock, as the last reduction said */
    bool save_has_ended; /* none is in progress on any rank, as the last reduction said */
    struct triggers triggers;
    /* Of finished steps, since the last line of progress; a checkpoint keeps what its loss is made
     * of. */
    struct step_totals window;
    struct evaluation evaluation;
    struct early_stop early_stop;
    struct ranges ranges;
    struct time_spent device_spent; /* by the device, in all steps that are settled */
    char folder[IO_PATH_BYTES_MAX]; /* of the checkpoints */
    char run_id[17];
    struct str numerics_id;          /* of all ranks, where parallel.mixed allows them to differ */
    uint64_t validation_fingerprint; /* 0: unknown */
    uint64_t weights_fingerprint;    /* of those read from model.init or --from; 0: of none */
    struct str state_json;           /* reused */
};

/* All of it, resumed where there is something to resume. On failure the run is closed. */
int run_open(struct run *run, const struct trainer_options *options, run_memory_check *check_memory,
             struct err *err);
/* run_weights.c: who holds what, and the memory for it; the first values (of `init`, NULL: random).
 * Weights that ranks hold are whole for passes once they were filled or a checkpoint's were put in
 * their places, and weights_refresh was called. */
int run_count_shards(struct run *run, struct err *err); /* collective */
bool run_sums_each(const struct run *run); /* gradients travel after each micro-batch */
bool run_adds_gradients(
    const struct run *run); /* passes add to gradients: before the model is open */
int run_open_weights(struct run *run, struct err *err);
int run_fill_weights(struct run *run, const char *init, struct err *err);
struct partition_options run_partition_options(const struct run *run, bool trains);
struct weights_options run_weights_options(const struct run *run);
struct reduction_options run_reduction_options(const struct run *run);
/* Where a pass finds and leaves things, hooks included. round: of the reduction; UINT64_MAX: an
 * evaluation, which has no gradients. */
int run_begin_pass(struct run *run, uint64_t round, struct model_memory *ret_memory,
                   struct err *err);

/* What run_evaluate needs and nothing else: no training data, optimizer, saver or metrics. from: as
 * init_load's path. */
int run_open_for_evaluation(struct run *run, const struct trainer_options *options,
                            run_memory_check *check_memory, const char *from, struct err *err);
void run_close(struct run *run); /* safe on a zeroed run */

/* Scaler, schedule and early stop at the beginning of a run, as configured: the model is open and
 * the number of steps known. */
void run_begin_policies(struct run *run);

/* The batch of the epoch that the run begins or goes on in, before its data is opened; then, with
 * the data known, the number of steps and the one before the next batch. -EINVAL where an epoch has
 * less than a batch. */
void run_set_batch(struct run *run, uint64_t epoch);
int run_count_steps(struct run *run, uint64_t epoch, struct err *err);

/* run_local.c: updates of each rank's own. Is the run one of those? */
bool run_is_local(const struct run *run);
int run_open_mean(struct run *run, struct err *err);
int run_connect_mean(struct run *run, struct err *err);
/* Weights become the mean over ranks, where they differ: after every so many steps, as configured,
 * or now. Collective. */
int run_share_weights(struct run *run, bool now, struct err *err);
/* Bytes of the newest step, with its part of the means of weights. */
struct comm_traffic run_traffic(const struct run *run);
/* Weights and moments do, now: before what is saved. Collective; no save is in progress. */
int run_share_state(struct run *run, struct err *err);

/* Queues one update: all micro-batches that this rank owns, the reduction, the decision, the
 * optimizer. Then as run_settle, of all steps but the newest UPDATE_GATE_AHEAD_MAX, or of all where
 * device memory is the host's. */
int run_step(struct run *run, struct err *err);

/* What the device makes of steps is read when it is wanted (run_queue.c). Allocates what that
 * takes, with what words take. */
int run_open_queue(struct run *run, struct err *err);
void run_close_queue(struct run *run);
/* Gives the device what steps go on from: the scaler and the number of updates. */
int run_begin_queue(struct run *run, struct err *err);
/* For the device: may it update, and how. Of the words of all ranks; valid_count is that of the
 * whole batch. */
void run_gate_update(struct run *run, int64_t valid_count);
/* The newest step is queued as a whole. counts: the valid items and samples of all ranks. */
int run_end_step(struct run *run, const struct run_words *counts, struct err *err);
/* Blocks until all steps but the newest `left` are done, and adds them to run->window; the scaler,
 * the number of updates and the window are then those after them. -EDOM names a step whose
 * gradients are not finite, where the scaler does not forgive it: then all weights are those before
 * that step. */
int run_settle(struct run *run, uint64_t left, struct err *err);
/* Of all steps that are queued, as a range of waiting. */
int run_settle_all(struct run *run, struct err *err);

/* run_bulk.c. The device that the configuration names: a GPU by this rank's place on its
 * machine. */
int run_open_device(struct run *run, struct err *err);
/* Once all ranks have theirs, run->bulk as the configuration wants it; until then it is comm.
 * Collective. */
int run_open_bulk(struct run *run, struct err *err);
/* Nothing is in progress between GPUs any more, on this rank: before device memory is freed, which
 * waits for it. After a failure that all ranks know of, and each of them. */
void run_halt_bulk(struct run *run);
void run_close_bulk(struct run *run);

/* run_cpus.c: sets run->cpus. Collective. Then how many threads compute and decode; 0: one for
 * each processor that the process may use. */
int run_share_cpus(struct run *run, struct err *err);
unsigned run_threads(const struct run *run);
unsigned run_workers(const struct run *run);

/* For a collective of the ranks that begins now; what: names it in messages, and lives as long as
 * it. */
struct comm_options run_comm_options(const struct run *run, const char *what);
/* As comm_agree, of the ranks of the run. Alone: status. */
int run_agree(const struct run *run, int status, const char *what, struct err *err);
/* run_agreement.c. Opens the validation data, if there is any: its errors end the run at the start,
 * not at the first evaluation, and its fingerprint is compared. */
int run_look_at_validation(struct run *run, struct err *err);
/* Both collective. -EINVAL on all ranks, as rank_agreement_check, where their loaders have other
 * datasets, or left out more or less of damaged tars; where they compute with other kernels. name:
 * the key of the data; loader NULL: only of the validation data, which was looked at. */
int run_compare_data(const struct run *run, const struct loader *loader, const char *name,
                     struct err *err);
int run_compare_numerics(struct run *run, struct err *err);
/* What the bits depend on, into run->numerics_id. */
int run_name_numerics(struct run *run, struct err *err);

/* Words of zero in device memory; then, queued, the losses and hits that a pass left in it; then
 * all of them, which blocks until the device has done what was queued; then those of all ranks.
 * what: names the reduction in messages. */
int run_begin_words(struct run *run, struct err *err);
void run_add_result(struct run *run, const struct model_result *result);
int run_read_words(struct run *run, struct run_words *ret_words, struct err *err);
int run_reduce_words(struct run *run, struct run_words *words, const char *what, struct err *err);
/* data.bad_samples.limit for what all ranks have met together, each of which lets all pass by
 * itself, so that a run ends after the same step on any number of them. Collective where they are
 * too many, which is on all ranks. */
int run_judge_bad(const struct run *run, const struct loader *loader, uint64_t bad_count,
                  uint64_t delivered_count, struct err *err);

/* Does this rank wish to stop: the owner asked for it or, on the first rank, time is up, which
 * run->time_is_up then tells. */
bool run_wishes_stop(struct run *run);

/* The whole validation set; fills run->evaluation. A wish to stop ends it early: then
 * run->evaluation stays as it was, and run->stop_requested tells. */
int run_evaluate(struct run *run, struct err *err);

/* Parts of the opening, in their order: the training data (where the checkpoint's state says, if
 * there is one), the model with the memory for its passes, the optimizer with the gradients', and
 * communicators of those parts' own. */
/* First of all: run->given and run->config. */
int run_take_config(struct run *run, const struct train_config *config, struct err *err);
int run_open_data(struct run *run, struct ckpt_reader *reader, const char *path, struct err *err);
int run_open_model(struct run *run, bool trains, struct err *err);
int run_open_optimizer(struct run *run, struct err *err);
int run_connect(struct run *run, struct err *err);
/* Counts what goes through comm, or bulk, from now on; plain_comm, or nccl, is set. */
int run_count_traffic(struct run *run, struct err *err);
int run_count_bulk(struct run *run, struct err *err);
uint64_t run_staging_bytes(const struct run *run); /* of checkpoints, at most */

/* run_options.c: what the configuration says, as options of the parts; they borrow from the run. Of
 * the loader: over the training or the validation data. Model and feed: once classes and vocabulary
 * are known. */
struct loader_options run_loader_options(struct run *run, bool training);
struct model_config run_model_config(const struct run *run, bool trains);
struct batch_upload_options run_batch_upload_options(const struct run *run);
struct optimizer_options run_optimizer_options(const struct run *run);

/* The boxes of parameters and moments: what this rank saves, or what it holds and loads. Gives both
 * arrays, which are malloc'ed. Then what another rank saves, whose data is elsewhere: that of its
 * boxes is no address of anything. */
int run_describe_tensors(const struct run *run, bool loads, struct ckpt_tensor **ret_tensors,
                         char **ret_names, uint64_t *ret_count, struct err *err);
int run_describe_tensors_of(const struct run *run, uint32_t rank, struct ckpt_tensor **ret_tensors,
                            char **ret_names, uint64_t *ret_count, struct err *err);
/* Where the row lies of what this rank holds of a parameter; kind: 0 is the parameter, others its
 * moments. */
void *run_row_place(const struct run *run, const struct param *param, uint64_t row, unsigned kind);
/* Names the run and its numerics, which ranks compare, and opens the saver of all parameters and
 * moments: the model, the optimizer and the loader are open. */
int run_open_saver(struct run *run, struct err *err);

/* Of all that ranks hold alike (run_sync.c): opens the comparison; then, collectively, makes it
 * after what is queued. Where one was made after the last step, what a rank alone keeps must still
 * be what it was: before an update. */
int run_open_sync_check(struct run *run, struct err *err);
int run_check_sync(struct run *run, struct err *err);
int run_check_kept(struct run *run, struct err *err);

/* Where the training data stands, and the digests of what all ranks were given of it.
 * Collective. */
int run_cursor(const struct run *run, struct cursor *ret_cursor, struct err *err);

/* The small state of a checkpoint as JSON into run->state_json, collectively, and back.
 * docs/reference/checkpoints.md lists the keys. */
int run_encode_state(struct run *run, struct err *err);
int run_decode_cursor(const struct json_t *state, const char *path, struct cursor *ret_cursor,
                      struct err *err);

/* To the owner of the program, where this rank is one that speaks of it. */
void run_report(const struct run *run, const struct trainer_report *report);
/* A line for the owner of the program. */
void run_say(const struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* After a failure, before run_close: a save in progress, in which all take part, ends first. Of one
 * that the others have not heard of the reason is reported while it can be (TRAINER_FAILED), and
 * they, who wait for this rank or will, are ended. Alone: nothing. */
void run_give_up(struct run *run, int status, const struct err *detail);

#endif
