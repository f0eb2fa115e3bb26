/*
 * step — one update of a run: passes over one micro-batch at a time, the sum of their gradients,
 * the exact norm, gradient clipping, and the optimizer group by group. See run.h.
 *
 * One exact integer reduction carries counts, sums of losses and squares, and stop requests. With
 * several ranks, the host waits for the device only before it.
 */
#include "base/clock.h"
#include "trainer/run/run.h"

#include <errno.h>

/* Sums counts over all ranks and, except with local updates, the sums in device memory. */
static int reduce_sums(struct run *run, struct step_sums *counts, struct err *err)
{
    if (run->ranks.comm->ranks == 1)
        return 0;
    struct step_sums sums;
    int status = run_queue_read_sums(&run->queue, &sums, err);
    if (status)
        return status;
    sums.valid_count = counts->valid_count;
    sums.samples_count = counts->samples_count;
    sums.bad_count = counts->bad_count;
    sums.stop_requests = counts->stop_requests;
    sums.save_requests = counts->save_requests;
    sums.saves_in_progress = counts->saves_in_progress;
    status = run_ranks_reduce(&run->ranks, (int64_t *)&sums, STEP_SUMS_WORDS, COMM_SUM,
                              "the step's counts, losses and norm", err);
    if (status)
        return status;
    *counts = sums;
    return run_uses_local_sgd(run) ? 0 : run_queue_write_sums(&run->queue, &sums, err);
}

int run_check_bad_samples(const struct run *run, const struct loader *loader, uint64_t bad_count,
                          uint64_t delivered_count, struct err *err)
{
    int status = loader_check_bad_fraction(loader, run->config->data.bad_samples.limit, bad_count,
                                           delivered_count, err);
    return status ? run_ranks_agree(&run->ranks, status, "ending for bad samples", err) : 0;
}

bool run_wants_stop(struct run *run)
{
    if (run->options->stop && atomic_load(run->options->stop) != 0)
        return true;
    bool is_up =
        run->ranks.comm->rank == 0 && triggers_must_stop(&run->control.triggers, clock_now_ns());
    run->control.time_is_up = run->control.time_is_up || is_up;
    return is_up;
}

/* Charges the device time of work queued from now on to the category. TIME_OTHER: no work
 * follows. */
static void switch_device_time(struct run *run, enum time_category category)
{
    if (run->compute.ops->table->switch_category)
        run->compute.ops->table->switch_category(run->compute.ops, &run->queue.device_record->timer,
                                                 category);
}

struct pass {
    struct run *run;
    const struct model_input *input;
    const struct model_memory *memory;
};

static void queue_pass(void *context)
{
    const struct pass *pass = context;
    struct run *run = pass->run;
    const struct model_result result = {run->compute.losses, run->compute.correct_flags};
    range_begin(&run->ranges, RANGE_FORWARD);
    switch_device_time(run, TIME_FORWARD);
    model_forward(run->compute.model, &run->compute.stage, pass->memory, &run->compute.activations,
                  pass->input, NULL, NULL, NULL);
    range_end(&run->ranges);
    range_begin(&run->ranges, RANGE_BACKWARD);
    switch_device_time(run, TIME_BACKWARD);
    model_backward(run->compute.model, &run->compute.stage, pass->memory, &run->compute.activations,
                   pass->input, &result, NULL, NULL);
    run_queue_add_result(&run->queue, &result, model_rows(run->compute.model));
    switch_device_time(run, TIME_REDUCE);
    range_end(&run->ranges);
}

/* A pass whose hooks wait for other ranks cannot be recorded as a graph. */
static int run_pass(struct run *run, const struct pass *pass, struct err *err)
{
    uint32_t variant = run->update.reduction->buffer * BATCH_UPLOAD_VARIANTS +
                       batch_upload_variant(&run->data.upload);
    if (!pass->memory->acquire)
        return ops_graph_run(&run->compute.pass_graphs, variant, queue_pass,
                             (void *)(uintptr_t)pass, err);
    queue_pass((void *)(uintptr_t)pass);
    return 0;
}

static const void *reduction_part_of_group(void *context, uint64_t group)
{
    const struct run *run = context;
    return reduction_part(run->update.reduction, group);
}

static void queue_sum_squares(void *context)
{
    struct run *run = context;
    optimizer_sum_squares(&run->update.optimizer, reduction_part_of_group, run,
                          run->queue.device_record->sums.squares.limb);
}

static int compute_micro_gradients(struct run *run, uint64_t round,
                                   const struct model_memory *memory, struct step_sums *counts,
                                   struct err *err)
{
    const struct batch *batch;
    range_begin(&run->ranges, RANGE_DATA);
    int status = loader_next(run->data.loader, &batch, err);
    range_end(&run->ranges);
    if (status == LOADER_END)
        return err_set(err, -ENODATA, "the training data ended before the run did");
    if (status != LOADER_BATCH)
        return status;
    uint32_t items = batch->items_count;
    struct model_input input;
    uint64_t valid = 0;
    range_begin(&run->ranges, RANGE_UPLOAD);
    status = batch_upload_push(&run->data.upload, run->data.loader, batch, &input, &valid, err);
    range_end(&run->ranges);
    if (status)
        return status;
    input.loss_scale = &run->queue.device_record->clip.loss_factor;
    const struct pass pass = {run, &input, memory};
    range_begin(&run->ranges, RANGE_MICRO_BATCH);
    status = run_pass(run, &pass, err);
    if (!status)
        status = reduction_end_round(run->update.reduction, round, err);
    switch_device_time(run, TIME_OTHER);
    range_end(&run->ranges);
    if (status) {
        int cause = offload_status(run->compute.activations.offload, err);
        return cause ? cause : status;
    }
    counts->valid_count += (int64_t)valid;
    counts->samples_count += items;
    range_begin(&run->ranges, RANGE_UPLOAD);
    status = batch_upload_pop(&run->data.upload, err);
    range_end(&run->ranges);
    return status;
}

/* A rank may have no micro-batch in a round while others have one. */
static int run_round(struct run *run, uint64_t round, struct step_sums *counts, struct err *err)
{
    struct model_memory memory;
    int status = run_begin_pass(run, round, &memory, err);
    if (status)
        return status;
    if (reduction_has_micro_batch(run->update.reduction, round)) {
        status = compute_micro_gradients(run, round, &memory, counts, err);
    } else {
        model_walk(run->compute.model, &run->compute.stage, &memory, MODEL_FORWARD);
        model_walk(run->compute.model, &run->compute.stage, &memory, MODEL_BACKWARD);
        status = reduction_end_round(run->update.reduction, round, err);
    }
    return status ? status : weights_status(&run->compute.weights, err);
}

static int sum_gradients(struct run *run, struct step_sums *counts, struct err *err)
{
    int status = reduction_begin(run->update.reduction, run->step, err);
    for (uint64_t round = 0; round < reduction_rounds(run->update.reduction) && !status; round++)
        status = run_round(run, round, counts, err);
    range_begin(&run->ranges, RANGE_NORM);
    switch_device_time(run, TIME_REDUCE);
    if (!status)
        status = reduction_finish(run->update.reduction, err);
    if (!status)
        status = ops_graph_run(&run->update.sum_squares, 0, queue_sum_squares, run, err);
    switch_device_time(run, TIME_OTHER);
    range_end(&run->ranges);
    return status;
}

int run_update_weights(struct run *run, struct err *err)
{
    const struct update_scalars *scalars = &run->queue.device_record->clip.scalars;
    int status = 0;
    for (uint64_t group = 0; group < run->compute.params->groups_count && !status; group++) {
        const void *gradients;
        if (run->compute.params->groups[group].trained_elements == 0)
            continue;
        status = reduction_shard(run->update.reduction, group, &gradients, err);
        if (status)
            return status;
        range_begin(&run->ranges, RANGE_STAGE);
        if (run->saving.saver) /* a dry run has none */
            ckpt_saver_before_update(run->saving.saver, (uint32_t)group);
        range_end(&run->ranges);
        optimizer_update_shard(
            &run->update.optimizer, group, weights_shard(&run->compute.weights, group),
            weights_compute_shard(&run->compute.weights, group), gradients, scalars);
        status = weights_finish_update(&run->compute.weights, group, err);
    }
    return status;
}

/* counts: as for reduce_sums. Fails if a pass could not be queued. */
static int agree_on_step(struct run *run, struct step_sums *counts, struct err *err)
{
    counts->bad_count = (int64_t)loader_stats(run->data.loader).bad_samples_count;
    counts->stop_requests = run_wants_stop(run);
    counts->save_requests = run->ranks.comm->rank == 0 &&
                            triggers_save_by_clock(&run->control.triggers, clock_now_ns());
    counts->saves_in_progress = run->saving.saver && ckpt_saver_is_busy(run->saving.saver);
    range_begin(&run->ranges, RANGE_REDUCE);
    int status = reduce_sums(run, counts, err);
    range_end(&run->ranges);
    if (!status)
        status = offload_status(run->compute.activations.offload, err);
    if (!status)
        status = run->compute.ops->table->status(run->compute.ops, err);
    if (status)
        return status;
    run->data.delivered_count += (uint64_t)counts->samples_count;
    return run_check_bad_samples(run, run->data.loader, (uint64_t)counts->bad_count,
                                 run->data.delivered_count, err);
}

/* Queued updates may be skipped, so the input covers every possible update count. */
static void clip_gradients(struct run *run, int64_t valid_count)
{
    struct gradient_clip_input input = {.valid_count = valid_count,
                                        .clip_norm = run->update.optimizer.options.clip_norm,
                                        .clip_value = run->update.optimizer.options.clip_value,
                                        .first_update = run->update.optimizer.updates};
    for (uint64_t i = 0; i <= run->queue.count; i++) {
        uint64_t updates = input.first_update + i;
        input.scheduled[i] = optimizer_scheduled_scalars(
            &run->update.optimizer, updates, schedule_lr(&run->update.schedule, updates));
    }
    struct step_record *record = run->queue.device_record;
    run->compute.ops->table->clip_gradients(run->compute.ops, &record->clip,
                                            record->sums.losses.limb, record->sums.squares.limb,
                                            &input);
}

/* With local updates, clipping uses this rank's sums; the global sums replace them afterwards.
 * valid_count: of the gradients' samples. counts: over all ranks. */
static int clip_and_update(struct run *run, int64_t valid_count, const struct step_sums *counts,
                           struct err *err)
{
    bool is_local = run_uses_local_sgd(run);
    range_begin(&run->ranges, RANGE_UPDATE);
    switch_device_time(run, TIME_UPDATE);
    run->update.weights_differ = run->update.moments_differ = is_local;
    clip_gradients(run, valid_count);
    int status = is_local ? run_queue_write_sums(&run->queue, counts, err) : 0;
    if (!status)
        status = run_update_weights(run, err);
    switch_device_time(run, TIME_OTHER);
    range_end(&run->ranges);
    return status;
}

int run_step(struct run *run, struct err *err)
{
    struct step_sums counts = {0};
    const struct comm_traffic before = comm_counts_read(&run->ranks.traffic);
    int status = run_queue_zero_sums(&run->queue, err);
    if (!status)
        status = sum_gradients(run, &counts, err);
    if (status)
        return status;
    int64_t own_valid_count = counts.valid_count;
    status = agree_on_step(run, &counts, err);
    if (!status)
        status = run_recheck_own_state(run, err);
    if (!status)
        status = clip_and_update(
            run, run_uses_local_sgd(run) ? own_valid_count : counts.valid_count, &counts, err);
    if (status)
        return status;
    run->ranks.serialized = run->config->parallel.debug;
    run->update.step_traffic = comm_counts_since(&run->ranks.traffic, &before);
    run->control.stop_requested = counts.stop_requests > 0;
    run->control.save_requested = counts.save_requests > 0;
    run->control.save_has_ended = counts.saves_in_progress == 0;
    status = run_queue_push(&run->queue, ++run->step, &counts, err);
    range_begin(&run->ranges, RANGE_WAIT);
    if (!status)
        status = run_drain(run, run->compute.device->ops->is_host ? 0 : UNREAD_STEPS_MAX, err);
    range_end(&run->ranges);
    return status;
}
