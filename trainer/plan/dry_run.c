/*
 * dry_run — see dry_run.h.
 */
#include "trainer/plan/dry_run.h"

#include "base/bytes.h"
#include "ckpt/save/consolidated.h"
#include "ckpt/save/layout.h"
#include "ckpt/save/snapshot.h"
#include "comm/nccl/comm_nccl.h"
#include "device/device_cuda.h"
#include "device/device_null.h"
#include "trainer/config/strategy.h"
#include "trainer/run/run.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int trainer_dry_run_backend(const struct train_config *config,
                            const struct ops_null_model **ret_backend, struct err *err)
{
    const char *name = config_device_name(config->device);
    int count = 0;
    bool is_cuda = strcmp(name, "cuda") == 0 ||
                   (strcmp(name, "cpu") != 0 && device_cuda_count(&count, NULL) == 0 && count > 0);
    *ret_backend = is_cuda ? ops_null_cuda() : ops_null_cpu();
    if (*ret_backend)
        return 0;
    err_set(err, -ENODEV,
            "this build has no CUDA and does not know how much memory its kernels need");
    err_advise(err, "use --set device=cpu, or a build with CUDA");
    return -ENODEV;
}

bool trainer_dry_run_uses_nccl(const struct train_config *config,
                               const struct ops_null_model *backend, uint32_t local_ranks)
{
    int count = 0;
    if (backend->is_host || config->parallel.comm == CONFIG_COMM_HOST)
        return false;
    if (config->parallel.comm == CONFIG_COMM_NCCL)
        return true;
    bool has_too_few_gpus =
        device_cuda_count(&count, NULL) == 0 && count > 0 && local_ranks > (uint32_t)count;
    return comm_nccl_check(NULL) == 0 && !has_too_few_gpus;
}

static int open_comms(struct run *run, const struct trainer_dry_run_options *options,
                      struct err *err)
{
    int rank = (int)options->rank, ranks = (int)options->ranks;
    int status = comm_null_open(rank, ranks, false, &run->ranks.own_comm, err);
    run->ranks.uncounted_comm = run->ranks.own_comm;
    if (!status)
        status = run_ranks_open_counting_comm(&run->ranks, run->config, err);
    if (status || !options->uses_nccl || ranks == 1)
        return status;
    status = comm_null_open(rank, ranks, true, &run->ranks.nccl_comm, err);
    return status ? status : run_ranks_open_bulk_comm(&run->ranks, err);
}

static int open_backend(struct run *run, const struct trainer_dry_run_options *options,
                        struct err *err)
{
    enum dtype compute = run_dtype_of_precision(run->config->precision.compute);
    if (options->backend->is_host && compute != DTYPE_F32) {
        err_set(err, -EINVAL, "the cpu computes in F32, not in %s", dtype_name(compute));
        err_advise(err, "set precision.compute: fp32, or device: cuda");
        return -EINVAL;
    }
    int status = ops_null_open(options->backend, compute, DTYPE_F32, &run->compute.device,
                               &run->compute.ops, err);
    return status ? status : open_comms(run, options, err);
}

static int open_batch(struct run *run, const struct trainer_dry_run_options *options,
                      struct err *err)
{
    const struct train_config *c = run->config;
    run->data.batching = run_batching(c, options->rank, options->ranks, !options->is_evaluation);
    int status = batching_check(&run->data.batching, err);
    return status || options->is_evaluation
               ? status
               : strategy_shards_count(strategy_at(c->parallel.strategy),
                                       strategy_mesh_from_config(c), options->ranks,
                                       options->local_ranks, &run->compute.shards_count, err);
}

static int apply_shape(struct run *run, const struct trainer_dry_run_options *options,
                       struct err *err)
{
    run_data_set_shape(&run->data, options->shape, run->config);
    if (options->is_evaluation)
        return 0;
    run_data_set_batch(&run->data, run->original_config, options->epoch);
    run->config->batch.global = run->data.batching.global;
    return run_count_steps(run, options->epoch, err);
}

/* Opens both loaders, as a run does. */
static int open_data(struct run *run, struct loader **ret_validation, struct err *err)
{
    int status = run_open_data(run, NULL, "", err);
    if (status || !run->config->data.val[0])
        return status;
    const struct loader_options options = run_loader_options(run, false);
    return loader_open(&options, ret_validation, err);
}

struct planned_save {
    struct consolidated consolidated; /* for layout full */
    struct layout layout;
    struct staging staging;
};

static void close_save(struct planned_save *save)
{
    staging_deinit(&save->staging);
    layout_deinit(&save->layout);
    consolidated_deinit(&save->consolidated);
}

static int plan_consolidated_file(struct run *run, const struct trainer_dry_run_options *options,
                                  struct consolidated *consolidated, struct err *err)
{
    const struct run_compute *compute = &run->compute;
    struct run_tensors *tensors = calloc(options->ranks, sizeof *tensors);
    struct consolidated_tensors *holdings = calloc(options->ranks, sizeof *holdings);
    bool has_memory = tensors && holdings;
    int status = has_memory ? 0 : err_set(err, -ENOMEM, "out of memory for a dry run");
    for (uint32_t rank = 0; rank < options->ranks && !status; rank++) {
        /* the partition has one rank if every rank holds everything */
        status = run_tensors_describe(compute, &run->update.optimizer,
                                      compute->partition.options.ranks == 1 ? 0 : rank, false,
                                      &tensors[rank], err);
        holdings[rank] = (struct consolidated_tensors){.tensors = tensors[rank].list,
                                                       .tensors_count = tensors[rank].count};
    }
    if (!status)
        status =
            consolidated_simulate(consolidated, holdings, (int)options->rank, (int)options->ranks,
                                  (uint32_t)compute->params->groups_count, err);
    for (uint32_t rank = 0; has_memory && rank < options->ranks; rank++)
        run_tensors_deinit(&tensors[rank]);
    free(tensors);
    free(holdings);
    return status;
}

static int open_staging(struct run *run, const struct trainer_dry_run_options *options,
                        struct planned_save *save, struct err *err)
{
    bool is_full = run->config->checkpoint.layout == CKPT_CONSOLIDATED;
    int status =
        run_tensors_describe(&run->compute, &run->update.optimizer,
                             run->compute.partition.options.rank, false, &run->saving.tensors, err);
    if (!status && is_full)
        status = plan_consolidated_file(run, options, &save->consolidated, err);
    if (status)
        return status;
    bool is_shared = run->config->checkpoint.shared;
    const struct layout_options layout = {
        .tensors = run->saving.tensors.list,
        .tensors_count = run->saving.tensors.count,
        .groups_count = (uint32_t)run->compute.params->groups_count,
        .rank = (int)options->rank,
        .ranks = (int)options->ranks,
        .node_rank = (int)(is_shared ? options->rank : options->rank % options->local_ranks),
        .node_ranks = (int)(is_shared ? options->ranks : options->local_ranks),
        .consolidated = is_full ? &save->consolidated : NULL};
    unsigned buffers;
    status = layout_init(&save->layout, &layout, err);
    if (!status)
        status = snapshot_count_buffers(&save->layout, run_staging_bytes(run), &buffers, err);
    return status ? status
                  : staging_init(&save->staging, &save->layout, run->compute.device,
                                 run->compute.ops->stream, buffers, err);
}

static void simulate_pass(struct run *run, uint64_t round, const struct model_memory *memory)
{
    const struct model_result result = {run->compute.losses, run->compute.correct_flags};
    const void *any = run->compute.activations.memory; /* never read */
    const struct model_input input = {.vision.images = any,
                                      .vision.labels = any,
                                      .language.tokens = any,
                                      .language.targets = any,
                                      .language.rows_by_token = any,
                                      .loss_scale = &run->queue.device_record->clip.loss_factor};
    if (!reduction_has_micro_batch(run->update.reduction, round)) {
        model_walk(run->compute.model, &run->compute.stage, memory, MODEL_FORWARD);
        model_walk(run->compute.model, &run->compute.stage, memory, MODEL_BACKWARD);
        return;
    }
    model_forward(run->compute.model, &run->compute.stage, memory, &run->compute.activations,
                  &input, NULL, NULL, NULL);
    model_backward(run->compute.model, &run->compute.stage, memory, &run->compute.activations,
                   &input, &result, NULL, NULL);
}

static int sum_gradients(struct run *run, struct err *err)
{
    int status = reduction_begin(run->update.reduction, run->step, err);
    for (uint64_t round = 0; round < reduction_rounds(run->update.reduction) && !status; round++) {
        struct model_memory memory;
        status = run_begin_pass(run, round, &memory, err);
        if (status)
            return status;
        simulate_pass(run, round, &memory);
        status = reduction_end_round(run->update.reduction, round, err);
        if (!status)
            status = weights_status(&run->compute.weights, err);
    }
    return status ? status : reduction_finish(run->update.reduction, err);
}

static int simulate_step(struct run *run, struct err *err)
{
    struct step_sums sums = {0};
    int status = sum_gradients(run, err);
    if (!status && run->ranks.comm->ranks > 1)
        status = run_ranks_reduce(&run->ranks, (int64_t *)&sums, STEP_SUMS_WORDS, COMM_SUM,
                                  "the step's counts, losses and norm", err);
    return status ? status : run_update_weights(run, err);
}

/* Counts only the second step, which has no one-time work. Both steps simulate the last step of the
 * phase, after PowerSGD's start_step. */
static int simulate_steps(struct run *run, struct trainer_dry_run *dry_run, struct err *err)
{
    run->step = run->control.phase_end_step - 1;
    int status = simulate_step(run, err);
    const struct comm_traffic before = comm_counts_read(&run->ranks.traffic);
    double flops = ops_null_flops(run->compute.ops);
    uint64_t transfer_bytes = device_null_transfer_bytes(run->compute.device);
    if (!status)
        status = simulate_step(run, err);
    dry_run->flops = ops_null_flops(run->compute.ops) - flops;
    dry_run->transfer_bytes = device_null_transfer_bytes(run->compute.device) - transfer_bytes;
    run->update.step_traffic = comm_counts_since(&run->ranks.traffic, &before);
    run->update.weights_differ = run_uses_local_sgd(run);
    if (!status)
        status = run_average_weights(run, true, err);
    return status ? status : weights_drain(&run->compute.weights, err);
}

static int simulate_training(struct run *run, const struct trainer_dry_run_options *options,
                             struct trainer_dry_run *dry_run, struct err *err)
{
    struct planned_save save = {0};
    int status = run_open_optimizer(run, err);
    if (!status)
        status = run_connect(run, err);
    if (!status)
        status = open_staging(run, options, &save, err);
    if (!status && !options->memory_only)
        status = simulate_steps(run, dry_run, err);
    dry_run->file_bytes = save.layout.image_bytes;
    close_save(&save);
    return status;
}

static int simulate_run(struct run *run, const struct trainer_dry_run_options *options,
                        struct trainer_dry_run *dry_run, struct err *err)
{
    struct loader *validation = NULL;
    int status = open_backend(run, options, err);
    if (!status)
        status = open_batch(run, options, err);
    if (!status && !options->shape)
        status = open_data(run, &validation, err);
    else if (!status)
        status = apply_shape(run, options, err);
    if (!status)
        status = run_open_model(run, !options->is_evaluation, err);
    if (!status && !options->is_evaluation)
        status = simulate_training(run, options, dry_run, err);
    loader_close(validation);
    if (status)
        return status;
    for (uint64_t i = 0; i < run->compute.params->count; i++)
        dry_run->parameter_count += run->compute.params->list[i].count;
    dry_run->shape = run->data.shape;
    /* owned by the loader, which is closed */
    dry_run->shape.pixels_libraries = dry_run->shape.engine = NULL;
    dry_run->steps = run->steps;
    dry_run->micros_count = batching_micros(&run->data.batching);
    const struct comm_traffic traffic = run_step_traffic(run);
    dry_run->usage = usage_measure(run->compute.device, &traffic);
    dry_run->device_bytes = usage_device_bytes(&dry_run->usage);
    return 0;
}

/* *ret_next: first epoch of the next phase; UINT64_MAX: none. */
static int simulate_phase(const struct trainer_dry_run_options *options,
                          struct trainer_dry_run *ret_dry_run, uint64_t *ret_next, struct err *err)
{
    const struct trainer_options run_options = {
        .config = options->config, .io = options->io, .log = options->log};
    struct run run = {.options = &run_options, .io = options->io, .is_dry_run = true};
    *ret_dry_run = (struct trainer_dry_run){0};
    int status = run_copy_config(&run, options->config, err);
    if (!status)
        status = simulate_run(&run, options, ret_dry_run, err);
    bool batch_changes = !status && run.control.phase_end_step < run.steps;
    *ret_next = batch_changes ? epochs_next_change(&run.data.epochs, options->epoch) : UINT64_MAX;
    run_close(&run);
    return status;
}

/* Opens the data only in the first phase, whose peak includes it. */
int trainer_dry_run(const struct trainer_dry_run_options *options,
                    struct trainer_dry_run *ret_dry_run, struct err *err)
{
    struct trainer_dry_run_options phase = *options;
    struct trainer_dry_run merged = {0}, current;
    assert(options->shape || options->epoch == 0);
    do {
        int status = simulate_phase(&phase, &current, &phase.epoch, err);
        if (status)
            return status;
        usage_merge_peaks(&current.usage, &merged.usage);
        current.device_bytes = bytes_max(current.device_bytes, merged.device_bytes);
        merged = current;
        phase.shape = &merged.shape;
    } while (phase.epoch != UINT64_MAX);
    *ret_dry_run = merged;
    return 0;
}
