/*
 * run — the state of one training run and its operations: steps, evaluations, checkpoints. Internal
 * to trainer/.
 *
 * Life cycle: run_open (from the configuration, then from a checkpoint if there is one), run_step
 * repeatedly, run_close.
 */
#ifndef MILLRACE_TRAINER_RUN_RUN_H
#define MILLRACE_TRAINER_RUN_RUN_H

#include "base/err.h"
#include "base/numeric/exact_sum.h"
#include "ckpt/ckpt.h"
#include "comm/comm.h"
#include "comm/comm_wrapper.h"
#include "loader/loader.h"
#include "trainer/config/epochs.h"
#include "trainer/control/data_schema.h"
#include "trainer/control/early_stop.h"
#include "trainer/control/trainer_options.h"
#include "trainer/control/triggers.h"
#include "trainer/models/batch_upload.h"
#include "trainer/models/model.h"
#include "trainer/ops/ops_graph.h"
#include "trainer/ops/scaler.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/schedule.h"
#include "trainer/parallel/reduction/rank_sum.h"
#include "trainer/parallel/reduction/reduction.h"
#include "trainer/parallel/weights.h"
#include "trainer/report/metrics.h"
#include "trainer/report/range.h"

#include <assert.h>

/* Totals over one or more steps. Exact, hence independent of the number of ranks. */
struct step_totals {
    struct exact_sum losses; /* nats, over valid items */
    uint64_t valid_count;    /* items (tokens, for text) with a target */
    uint64_t correct_count;
    uint64_t samples_count;
    double gradient_norm; /* of the last step; norm of the mean loss's gradient before clipping */
    double lr;
};

/* Sums over ranks: exact integers, so that the order does not matter. In device memory while they
 * accumulate. */
struct step_sums {
    int64_t valid_count, correct_count, samples_count;
    int64_t bad_count;  /* bad samples since the data was opened */
    int64_t stop, save; /* ranks that request it */
    int64_t saving;     /* ranks with a save in progress */
    struct exact_sum losses, squares;
};

static_assert(sizeof(struct step_sums) == (7 + 2 * EXACT_SUM_WORDS) * sizeof(int64_t),
              "words without padding");

/* Record of a step, in device memory during the step: the accumulated sums, and the update decision
 * based on them. */
struct step_record {
    struct step_sums words;
    struct update_gate gate;
    /* Device time since the run began; only if the ops measure it. */
    struct time_parts times;
};

/* A queued step whose result the host has not read yet. */
struct queued_step {
    uint64_t step; /* from 1 */
    int64_t valid_count, samples_count;
    struct step_record *record; /* pinned; the device's result, valid after `ended` */
    struct device_event *ended;
};

enum { QUEUED_STEPS_MAX = UPDATE_GATE_AHEAD_MAX + 1 };

/* The last evaluation. */
struct evaluation {
    bool present;
    uint64_t step;
    uint64_t valid_count; /* not saved in checkpoints */
    double loss, accuracy;
};

/* Checkpoints found to have damaged tensors when resuming; the run is reopened without them. */
struct damaged_steps {
    uint64_t below;                /* resume only from steps before this one; UINT64_MAX: any */
    char first[IO_PATH_BYTES_MAX]; /* the first one found, hence the newest; "": none */
};

struct run;

/* Checks that the device has enough memory, before the run allocates any for its model. trains:
 * false for an evaluation, which has no gradients or moments. -ENOMEM with advice. */
typedef int run_memory_check(const struct run *run, bool trains, struct err *err);

/* Owner thread. */
struct run {
    const struct trainer_options *options; /* borrowed */
    run_memory_check *check_memory;        /* NULL: memory is not checked */
    struct train_config *given; /* owned: as given, with the batch that the run began with */
    /* Owned: a copy with classes and vocabulary filled in, and the batch of the current epoch. */
    struct train_config *config;
    struct io *io; /* borrowed */

    struct comm *comm; /* between ranks; counts bytes */
    /* The same, uncounted; and set if the run opened it, which then closes it. */
    struct comm *plain_comm, *own_comm;
    struct comm *bulk; /* for weights and gradients, counted: comm, or NCCL */
    struct comm *nccl; /* between GPUs; NULL: not used */
    unsigned cpus;     /* this rank's share of its machine's CPUs; 0: all */
    struct comm_counts traffic;
    /* Of the newest step; of the last weight averaging. */
    struct comm_traffic step_traffic, mean_traffic;
    struct device *device;
    struct ops *ops;
    struct model *model;
    const struct params *params; /* the model's */
    struct model_stage stage;
    struct batching batching; /* of training */

    uint32_t shards;            /* of the optimizer's state, see strategy.h */
    struct partition partition; /* of the parameters among ranks */
    struct weights weights;
    struct model_activations activations;
    double *losses; /* as is correct: of a micro-batch, in device memory */
    uint8_t *correct;
    struct step_record *device_record,
        *host_records;           /* of the newest step; pinned, [QUEUED_STEPS_MAX] */
    struct step_sums *host_sums; /* pinned */
    struct queued_step queued[QUEUED_STEPS_MAX]; /* a ring: step n is n % QUEUED_STEPS_MAX */
    uint64_t queued_count;
    struct reduction *reduction;
    struct ops_graph passes; /* of a micro-batch; variants by input buffer and gradient leaf */
    struct ops_graph sums;   /* of squared gradients */
    struct optimizer optimizer;
    struct schedule schedule;
    struct scaler scaler;

    struct loader *loader; /* training data */
    /* The loader's sources; strings belong to the configuration. */
    struct loader_source mix[MIX_DATASETS_MAX];
    struct loader_shape shape;
    /* The meaning of labels and tokens to the model, by which evaluations map labels: from the
     * training data, or in a standalone evaluation from the checkpoint. */
    struct loader_schema reference;
    struct data_schema recorded; /* in the checkpoint being evaluated */
    uint64_t delivered_count;    /* samples of all ranks since the data was opened */
    struct ckpt_saver *saver;
    struct ckpt_tensor *tensors; /* what the saver saves */
    char *tensor_names;
    uint64_t tensors_count;
    struct metrics *metrics;
    struct sync_check *sync_check; /* NULL: no checks */
    struct rank_sum mean; /* averages weights and moments of local updates; otherwise unused */
    bool weights_differ;  /* between ranks, since the last averaging */
    bool moments_differ;  /* likewise */

    /* If set, communication between ranks ends before passes continue. Set for parallel.debug, and
     * in the first step with NCCL: kernels are loaded then, and the driver may wait for all work on
     * the device, including NCCL kernels that wait for other ranks. */
    bool serialized;
    bool is_dry_run; /* reads and computes nothing: see dry_run.h */
    struct damaged_steps damaged;
    struct batch_upload upload; /* copies micro-batches to the device */
    uint64_t step, steps; /* queued, total; all queued steps are finished if the queue is empty */
    struct epochs epochs;
    /* After this step the batch size changes: the run is saved, closed and reopened from the
     * checkpoint. Equals steps if the batch size stays. */
    uint64_t phase_end_step;
    bool stop_requested; /* by any rank, as of the last reduction */
    bool time_is_up;     /* requested by this rank's clock (first rank only) */
    bool save_requested; /* by the first rank's clock, as of the last reduction */
    bool save_has_ended; /* no rank has a save in progress, as of the last reduction */
    struct triggers triggers;
    /* Totals of finished steps since the last progress line. Checkpoints store the parts of its
     * loss. */
    struct step_totals window;
    struct evaluation evaluation;
    struct early_stop early_stop;
    struct ranges ranges;
    struct time_spent device_spent; /* device time of all settled steps */
    char folder[IO_PATH_BYTES_MAX]; /* of the checkpoints */
    char run_id[17];
    struct str numerics_id;          /* of all ranks, if parallel.mixed allows them to differ */
    uint64_t validation_fingerprint; /* 0: unknown */
    uint64_t weights_fingerprint;    /* of weights read from model.init or --from; 0: none */
    struct str state_json;           /* reused */
};

/* Opens everything, and resumes if there is a checkpoint. On failure the run is closed. */
int run_open(struct run *run, const struct trainer_options *options, run_memory_check *check_memory,
             struct err *err);
/* run_weights.c: the distribution of weights among ranks, their memory, and initial values (from
 * `init`; NULL: random). Sharded weights are usable for passes after run_fill_weights or a
 * checkpoint load, followed by weights_refresh. */
int run_count_shards(struct run *run, struct err *err); /* collective */
bool run_reduces_each_micro(
    const struct run *run); /* gradients are reduced after each micro-batch */
/* Whether passes accumulate into gradients; may be called before the model is open. */
bool run_adds_gradients(const struct run *run);
int run_open_weights(struct run *run, struct err *err);
int run_fill_weights(struct run *run, const char *init, struct err *err);
struct partition_options run_partition_options(const struct run *run, bool trains);
struct weights_options run_weights_options(const struct run *run);
struct reduction_options run_reduction_options(const struct run *run);
/* Sets the memory and hooks of a pass. round: of the reduction; UINT64_MAX: an evaluation, which
 * has no gradients. */
int run_begin_pass(struct run *run, uint64_t round, struct model_memory *ret_memory,
                   struct err *err);

/* Opens only what run_evaluate needs: no training data, optimizer, saver or metrics. from: as
 * init_load's path. */
int run_open_for_evaluation(struct run *run, const struct trainer_options *options,
                            run_memory_check *check_memory, const char *from, struct err *err);
void run_close(struct run *run); /* safe on a zeroed run */

/* Initializes scaler, schedule and early stop from the configuration. The model must be open and
 * the number of steps known. */
void run_begin_policies(struct run *run);

/* run_set_batch sets the batch of the epoch in which the run begins or resumes; call it before
 * opening the data. run_count_steps, once the data is known, sets the number of steps and the last
 * one before the batch changes. -EINVAL if an epoch is smaller than a batch. */
void run_set_batch(struct run *run, uint64_t epoch);
int run_count_steps(struct run *run, uint64_t epoch, struct err *err);

/* run_local.c: local updates (each rank updates its own weights). run_is_local: whether the run
 * uses them. */
bool run_is_local(const struct run *run);
int run_open_mean(struct run *run, struct err *err);
int run_connect_mean(struct run *run, struct err *err);
/* Replaces weights by their mean over ranks, if they differ: after the configured number of steps,
 * or now. Collective. */
int run_average_weights(struct run *run, bool now, struct err *err);
/* Bytes of the newest step, with its share of weight averaging. */
struct comm_traffic run_traffic(const struct run *run);
/* Averages weights and moments now, before a save. Collective; no save may be in progress. */
int run_average_state(struct run *run, struct err *err);

/* Queues one update: this rank's micro-batches, the reduction, the update gate, the optimizer. Then
 * settles all but the newest UPDATE_GATE_AHEAD_MAX steps, or all if device memory is host
 * memory. */
int run_step(struct run *run, struct err *err);

/* run_queue.c: the host reads the results of steps only when needed. Allocates the memory for that
 * and for words. */
int run_open_queue(struct run *run, struct err *err);
void run_close_queue(struct run *run);
/* Gives the device the scaler and the update count to continue from. */
int run_begin_queue(struct run *run, struct err *err);
/* Queues the update gate: whether to update, and how. The words must be the sums over all ranks;
 * valid_count is of the whole batch. */
void run_gate_update(struct run *run, int64_t valid_count);
/* Ends queueing the newest step. counts: valid items and samples of all ranks. */
int run_end_step(struct run *run, const struct step_sums *counts, struct err *err);
/* Blocks until all but the newest `left` steps are done. Adds them to run->window and updates the
 * scaler and the update count. -EDOM names a step whose gradients are not finite, unless the scaler
 * tolerates it; all weights are then those before that step. */
int run_drain(struct run *run, uint64_t left, struct err *err);
/* Settles all queued steps, measured as RANGE_WAIT. */
int run_drain_all(struct run *run, struct err *err);

/* run_bulk.c. Opens the configured device; a GPU is chosen by this rank's index on its machine. */
int run_open_device(struct run *run, struct err *err);
/* Sets run->bulk as configured, once all ranks have their devices; until then it is comm.
 * Collective. */
int run_open_bulk(struct run *run, struct err *err);
/* Ends all work in progress between GPUs on this rank. Call it before freeing device memory, which
 * would wait for that work, and after a failure that all ranks know of; every rank calls it. */
void run_halt_bulk(struct run *run);
void run_close_bulk(struct run *run);

/* run_cpus.c. Sets run->cpus; collective. run_threads and run_workers: the number of compute and
 * decode threads; 0: one per CPU available to the process. */
int run_share_cpus(struct run *run, struct err *err);
unsigned run_threads(const struct run *run);
unsigned run_workers(const struct run *run);

/* Options of a collective that begins now. what: names it in messages; must outlive it. */
struct comm_options run_comm_options(const struct run *run, const char *what);
/* comm_agree over the run's ranks; returns status on a single rank. */
int run_agree(const struct run *run, int status, const char *what, struct err *err);
/* run_agreement.c. Opens the validation data, if any, so that its errors end the run at the start
 * rather than at the first evaluation. Sets its fingerprint for the comparison. */
int run_look_at_validation(struct run *run, struct err *err);
/* Collective, -EINVAL on all ranks, as rank_agreement_check: if loaders have different datasets or
 * left out different numbers of samples from damaged tars, or if kernels differ. name: the data's
 * key. loader NULL: compares only validation data and initial weights. */
int run_compare_data(const struct run *run, const struct loader *loader, const char *name,
                     struct err *err);
int run_compare_numerics(struct run *run, struct err *err);
/* Writes everything that the result bits depend on to run->numerics_id. */
int run_name_numerics(struct run *run, struct err *err);

/* Step sums, in call order: zeroes them in device memory; queues adding a pass's losses and hits;
 * reads them, which blocks until the device has done all queued work; sums them over all ranks.
 * what: names the reduction in messages. */
int run_begin_sums(struct run *run, struct err *err);
void run_add_result(struct run *run, const struct model_result *result);
int run_read_sums(struct run *run, struct step_sums *ret_words, struct err *err);
int run_reduce_sums(struct run *run, struct step_sums *words, const char *what, struct err *err);
/* Applies data.bad_samples.limit to the bad samples of all ranks. Each rank's loader has no limit,
 * so that a run ends after the same step on any number of ranks. Collective when the limit is
 * exceeded, which all ranks see. */
int run_limit_bad(const struct run *run, const struct loader *loader, uint64_t bad_count,
                  uint64_t delivered_count, struct err *err);

/* Whether this rank requests a stop: its owner asked for it, or, on the first rank, time is up
 * (sets run->time_is_up). */
bool run_wants_stop(struct run *run);

/* Evaluates the whole validation set into run->evaluation. A stop request ends it early:
 * run->evaluation stays unchanged and run->stop_requested is set. */
int run_evaluate(struct run *run, struct err *err);

/* Opening steps, in order: the configuration (run->given and run->config), the training data (at
 * the position in the checkpoint's state, if there is one), the model with the memory for its
 * passes, the optimizer with gradients, and the parts' own communicators. */
int run_take_config(struct run *run, const struct train_config *config, struct err *err);
int run_open_data(struct run *run, struct ckpt_reader *reader, const char *path, struct err *err);
int run_open_model(struct run *run, bool trains, struct err *err);
int run_open_optimizer(struct run *run, struct err *err);
int run_connect(struct run *run, struct err *err);
/* Counts traffic through comm, or bulk, from now on; plain_comm, or nccl, must be set. */
int run_count_traffic(struct run *run, struct err *err);
int run_count_bulk(struct run *run, struct err *err);
uint64_t run_staging_bytes(const struct run *run); /* for checkpoints, at most */

/* run_options.c: the configuration as options of the run's parts, which borrow from the run.
 * training: the training data, else the validation data. Model and batch-upload options need the
 * classes and the vocabulary. */
struct loader_options run_loader_options(struct run *run, bool training);
struct model_config run_model_config(const struct run *run, bool trains);
struct batch_upload_options run_batch_upload_options(const struct run *run);
struct optimizer_options run_optimizer_options(const struct run *run);

/* Describes the boxes of parameters and moments that this rank saves, or holds and loads. Both
 * returned arrays are malloc'ed. run_describe_tensors_of describes what another rank saves; data of
 * its boxes is not a valid address. */
int run_describe_tensors(const struct run *run, bool loads, struct ckpt_tensor **ret_tensors,
                         char **ret_names, uint64_t *ret_count, struct err *err);
int run_describe_tensors_of(const struct run *run, uint32_t rank, struct ckpt_tensor **ret_tensors,
                            char **ret_names, uint64_t *ret_count, struct err *err);
/* Address of the row in this rank's part of a parameter. kind: 0 for the parameter, else one of its
 * moments. */
void *run_row_place(const struct run *run, const struct param *param, uint64_t row, unsigned kind);
/* Names the run and its numerics, which ranks compare, and opens the saver for all parameters and
 * moments. The model, the optimizer and the loader must be open. */
int run_open_saver(struct run *run, struct err *err);

/* run_sync.c: opens the comparison of everything that ranks replicate; makes it, after all queued
 * work, collectively; and, before an update that follows a comparison, checks that the state only
 * this rank keeps is unchanged. */
int run_open_sync_check(struct run *run, struct err *err);
int run_check_sync(struct run *run, struct err *err);
int run_check_kept(struct run *run, struct err *err);

/* The position in the training data, with the digests of all samples delivered to all ranks.
 * Collective. */
int run_cursor(const struct run *run, struct cursor *ret_cursor, struct err *err);

/* Encodes the small state of a checkpoint as JSON into run->state_json (collective), and decodes
 * its cursor. docs/reference/checkpoints.md lists the keys. */
int run_encode_state(struct run *run, struct err *err);
int run_decode_cursor(const struct json_t *state, const char *path, struct cursor *ret_cursor,
                      struct err *err);

/* Reports to the program's owner, if this rank reports such events. */
void run_report(const struct run *run, const struct trainer_report *report);
/* Reports a line of text to the program's owner. */
void run_log(const struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Call after a failure, before run_close. Waits for a save in progress, which is collective. If
 * other ranks do not know of the failure, reports the reason (TRAINER_FAILED) while it can, then
 * aborts the other ranks, which would wait for this one. Does nothing on a single rank. */
void run_abort(struct run *run, int status, const struct err *detail);

#endif
