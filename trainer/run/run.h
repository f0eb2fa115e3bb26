/*
 * run — the state of one training run and its operations. Internal to trainer/.
 *
 * Life cycle: run_open (from the configuration and the newest checkpoint, if any), run_step
 * repeatedly, run_close.
 */
#ifndef MILLRACE_TRAINER_RUN_RUN_H
#define MILLRACE_TRAINER_RUN_RUN_H

#include "trainer/control/trainer_options.h"
#include "trainer/report/metrics.h"
#include "trainer/report/range.h"
#include "trainer/run/parts/run_compute.h"
#include "trainer/run/parts/run_control.h"
#include "trainer/run/parts/run_data.h"
#include "trainer/run/parts/run_queue.h"
#include "trainer/run/parts/run_ranks.h"
#include "trainer/run/parts/run_saving.h"
#include "trainer/run/parts/run_update.h"

struct run;

/* is_training: false for an evaluation, which has no gradients or moments. -ENOMEM, with advice, if
 * the run does not fit into device memory. */
typedef int run_memory_check(const struct run *run, bool is_training, struct err *err);

/* Owner thread. */
struct run {
    const struct trainer_options *options; /* borrowed */
    run_memory_check *check_memory;        /* NULL: do not check */
    struct train_config *original_config;  /* owned; with the batch of the first epoch */
    /* owned; with the data's classes and vocabulary, and the epoch's batch */
    struct train_config *config;
    struct io *io;                /* borrowed */
    uint64_t step, steps;         /* queued, total */
    bool is_dry_run;              /* see dry_run.h */
    uint64_t weights_fingerprint; /* of weights read from model.init or --from; 0: none */
    struct metrics *metrics;
    struct sync_check *sync_check; /* NULL: no checks */
    struct ranges ranges;
    struct run_ranks ranks;
    struct run_compute compute;
    struct run_data data;
    struct run_update update;
    struct run_queue queue;
    struct run_control control;
    struct run_saving saving;
};

/* Resumes from a checkpoint if there is one. Closes the run on failure. */
int run_open(struct run *run, const struct trainer_options *options, run_memory_check *check_memory,
             struct err *err);
/* Opens only what run_evaluate needs. from: a path, as for model.init. */
int run_open_for_evaluation(struct run *run, const struct trainer_options *options,
                            run_memory_check *check_memory, const char *from, struct err *err);
void run_close(struct run *run); /* safe on a zeroed run */

/* Queues one update, then drains all but the newest UNREAD_STEPS_MAX steps, or all if device memory
 * is host memory. */
int run_step(struct run *run, struct err *err);
/* Queues the optimizer's updates of all groups. Requires finished reductions. */
int run_update_weights(struct run *run, struct err *err);
/* Waits for and records all but the newest pending_max steps. -EDOM if a step's gradients are not
 * finite and the scaler does not tolerate it; the weights are then those before that step. */
int run_drain(struct run *run, uint64_t pending_max, struct err *err);
int run_drain_all(struct run *run, struct err *err);
/* Evaluates the validation set into control.evaluation. On a stop request, returns early with
 * stop_requested set and the evaluation unchanged. */
int run_evaluate(struct run *run, struct err *err);
/* Whether this rank's owner requested a stop. On the first rank, also whether time is up, which
 * sets time_is_up. */
bool run_wants_stop(struct run *run);
/* Applies data.bad_samples.limit to totals over all ranks. Collective if it is exceeded. */
int run_check_bad_samples(const struct run *run, const struct loader *loader, uint64_t bad_count,
                          uint64_t delivered_count, struct err *err);

/* run_open.c. Call in this order. */
int run_copy_config(struct run *run, const struct train_config *config, struct err *err);
int run_open_data(struct run *run, struct ckpt_reader *reader, const char *path, struct err *err);
int run_open_model(struct run *run, bool is_training, struct err *err);
int run_open_optimizer(struct run *run, struct err *err);
int run_connect(struct run *run, struct err *err);

/* run_weights.c. Before a pass, sharded weights need run_init_weights (init NULL: random) or a
 * checkpoint load, then weights_refresh. */
int run_count_shards(struct run *run, struct err *err); /* collective */
int run_open_weights(struct run *run, struct err *err);
int run_init_weights(struct run *run, const char *init, struct err *err);
/* Gets the memory and hooks of a pass. round: of the reduction; UINT64_MAX: an evaluation. */
int run_begin_pass(struct run *run, uint64_t round, struct model_memory *ret_memory,
                   struct err *err);

/* run_policies.c. Initializes scaler, schedule and early stop. Requires an open model and counted
 * steps. */
void run_init_policies(struct run *run);
/* Sets run->steps and phase_end_step from the data. -EINVAL if an epoch is smaller than a
 * batch. */
int run_count_steps(struct run *run, uint64_t epoch, struct err *err);

/* run_local.c. */
bool run_uses_local_sgd(const struct run *run);
int run_open_averaging(struct run *run, struct err *err);
/* Averages weights over ranks if they differ and the configured number of steps has passed. force:
 * do not wait for that. Collective. */
int run_average_weights(struct run *run, bool force, struct err *err);
/* Includes the step's share of weight averaging. */
struct comm_traffic run_step_traffic(const struct run *run);
/* Averages weights and moments before a save. Collective; no save may be in progress. */
int run_average_state(struct run *run, struct err *err);

/* run_bulk_comm.c. Opens the configured device; options->local_rank selects the GPU. */
int run_open_device(struct run *run, struct err *err);
/* Sets ranks.bulk_comm as configured. Call once all ranks have opened their devices. Collective. */
int run_open_bulk_comm(struct run *run, struct err *err);

/* run_agreement.c. Finds errors in the validation data before training; stores its fingerprint. */
int run_probe_validation(struct run *run, struct err *err);
/* Collective. -EINVAL on all ranks if they differ in datasets, samples left out of damaged tars,
 * validation data, initial weights or kernels. key: names the loader in messages. loader NULL: not
 * compared. */
int run_compare_data(const struct run *run, const struct loader *loader, const char *key,
                     struct err *err);
int run_compare_numerics(struct run *run, struct err *err);
/* Sets numerics_id, which lists everything that affects the bits of the result. */
int run_describe_numerics(struct run *run, struct err *err);

/* run_options.c. Options borrow from the run. Model and upload options require known classes and
 * vocabulary. is_training: false for an evaluation. */
unsigned run_threads_count(const struct run *run); /* for compute; 0: one per CPU of the process */
enum dtype run_dtype_of_precision(uint32_t precision); /* enum config_precision */
struct batching run_batching(const struct train_config *config, uint32_t rank, uint32_t ranks,
                             bool is_training);
struct loader_options run_loader_options(struct run *run, bool is_training);
struct model_config run_model_config(const struct run *run, bool is_training);
struct batch_upload_options run_batch_upload_options(const struct run *run);
struct optimizer_options run_optimizer_options(const struct run *run);
struct partition_options run_partition_options(const struct run *run, bool is_training);
struct reduction_options run_reduction_options(const struct run *run);

/* run_saver.c. Sets run_id, compares numerics, and opens the saver. Requires open model, optimizer
 * and loader. */
int run_open_saver(struct run *run, struct err *err);
uint64_t run_staging_bytes(const struct run *run); /* maximum, for checkpoints */

/* run_sync.c. run_check_sync drains queued work and compares all replicated state; collective.
 * run_recheck_own_state then checks before the next update that the state that only this rank holds
 * is unchanged. */
int run_open_sync_check(struct run *run, struct err *err);
int run_check_sync(struct run *run, struct err *err);
int run_recheck_own_state(struct run *run, struct err *err);

/* state.c. Encodes the state except tensors as JSON into state_json; collective. */
int run_encode_state(struct run *run, struct err *err);
int run_decode_cursor(const struct json_t *state, const char *path, struct cursor *ret_cursor,
                      struct err *err);

/* run_messages.c. Other ranks than the first report only TRAINER_SAVE_FAILED and TRAINER_FAILED. */
void run_report(const struct run *run, const struct trainer_report *report);
void run_log(const struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Call after a failure, before run_close. Does nothing on a single rank. Waits for a save in
 * progress. If other ranks do not know of the failure, reports it (TRAINER_FAILED) and aborts them.
 */
void run_abort(struct run *run, int status, const struct err *detail);

#endif
