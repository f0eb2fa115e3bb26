/*
 * step — one update of a run: forward and backward passes one micro-batch at a time, the sum of
 * their gradients, the exact norm, the update gate, and the optimizer group by group. See run.h.
 *
 * Everything that ranks must agree on travels in one exact reduction of integers: counts, the exact
 * sums of losses and squares, and stop requests. The device accumulates the sums and decides on the
 * update. With several ranks, the host waits for the device in between, once a step.
 */
#include "base/clock.h"
#include "trainer/run/run.h"

#include <errno.h>

int run_begin_sums(struct run *run, struct err *err)
{
    return run->device->ops->fill(run->device, run->ops->stream, &run->device_record->words, 0,
                                  sizeof run->device_record->words, err);
}

void run_add_result(struct run *run, const struct model_result *result)
{
    const struct ops_table *table = run->ops->table;
    uint64_t rows = model_rows(run->model);
    table->exact_add(run->ops, run->device_record->words.losses.limb, result->losses, rows);
    table->count_add(run->ops, &run->device_record->words.correct_count, result->correct, rows);
}

int run_read_sums(struct run *run, struct step_sums *ret_words, struct err *err)
{
    int copied = run->device->ops->copy(run->device, run->ops->stream, run->host_sums,
                                        &run->device_record->words, sizeof *run->host_sums, err);
    /* sync reports the original error if the copy failed because of it */
    int status = run->ops->table->sync(run->ops, err);
    if (status || copied)
        return status ? status : copied;
    *ret_words = *run->host_sums;
    return 0;
}

int run_reduce_sums(struct run *run, struct step_sums *words, const char *what, struct err *err)
{
    struct comm_options options = run_comm_options(run, what);
    struct comm_work work;
    int status =
        run->comm->ops->all_reduce_i64(run->comm, (int64_t *)words, sizeof *words / sizeof(int64_t),
                                       COMM_SUM, &options, &work, err);
    return status ? status : comm_wait(run->comm, &work, err);
}

/* Copies the words of all ranks to the device. */
static int upload_sums(struct run *run, struct err *err)
{
    return run->device->ops->copy(run->device, run->ops->stream, &run->device_record->words,
                                  run->host_sums, sizeof *run->host_sums, err);
}

/* counts: this rank's counts kept by the host; replaced by those of all ranks, as are the words in
 * device memory, except with local updates. A single rank already has both. */
static int reduce_sums(struct run *run, struct step_sums *counts, struct err *err)
{
    if (run->comm->ranks == 1)
        return 0;
    struct step_sums words;
    int status = run_read_sums(run, &words, err);
    if (status)
        return status;
    words.valid_count = counts->valid_count;
    words.samples_count = counts->samples_count;
    words.bad_count = counts->bad_count;
    words.stop = counts->stop;
    words.save = counts->save;
    words.saving = counts->saving;
    status = run_reduce_sums(run, &words, "the step's counts, losses and norm", err);
    if (status)
        return status;
    /* no copy from host_sums is in progress: the words were read */
    *counts = *run->host_sums = words;
    return run_is_local(run) ? 0 : upload_sums(run, err);
}

int run_limit_bad(const struct run *run, const struct loader *loader, uint64_t bad_count,
                  uint64_t delivered_count, struct err *err)
{
    int status = loader_judge_bad(loader, run->config->data.bad_samples.limit, bad_count,
                                  delivered_count, err);
    return status ? run_agree(run, status, "ending for bad samples", err) : 0;
}

bool run_wants_stop(struct run *run)
{
    if (run->options->stop && atomic_load(run->options->stop) != 0)
        return true;
    bool is_up = run->comm->rank == 0 && triggers_must_stop(&run->triggers, clock_now_ns());
    run->time_is_up = run->time_is_up || is_up;
    return is_up;
}

/* Attributes work queued from now on to that part of the device's time. TIME_OTHER: until the next
 * call nothing is queued. */
static void switch_device_time(struct run *run, enum time_part part)
{
    if (run->ops->table->time_switch)
        run->ops->table->time_switch(run->ops, &run->device_record->times, part);
}

struct pass {
    struct run *run;
    const struct model_input *input;
    const struct model_memory *memory;
};

/* A micro-batch forward and backward, into a gradient leaf. */
static void queue_pass(void *context)
{
    const struct pass *pass = context;
    struct run *run = pass->run;
    const struct model_result result = {run->losses, run->correct};
    range_begin(&run->ranges, RANGE_FORWARD);
    switch_device_time(run, TIME_FORWARD);
    model_forward(run->model, &run->stage, pass->memory, &run->activations, pass->input, NULL, NULL,
                  NULL);
    range_end(&run->ranges);
    range_begin(&run->ranges, RANGE_BACKWARD);
    switch_device_time(run, TIME_BACKWARD);
    model_backward(run->model, &run->stage, pass->memory, &run->activations, pass->input, &result,
                   NULL, NULL);
    run_add_result(run, &result);
    switch_device_time(run, TIME_REDUCE);
    range_end(&run->ranges);
}

/* A pass whose hooks wait for other ranks cannot be recorded as a graph. */
static int run_pass(struct run *run, const struct pass *pass, struct err *err)
{
    uint32_t variant =
        run->reduction->buffer * BATCH_UPLOAD_VARIANTS + batch_upload_variant(&run->upload);
    if (!pass->memory->need)
        return ops_graph_run(&run->passes, variant, queue_pass, (void *)(uintptr_t)pass, err);
    queue_pass((void *)(uintptr_t)pass);
    return 0;
}

static const void *part_of(void *context, uint64_t group)
{
    const struct run *run = context;
    return reduction_part(run->reduction, group);
}

static void queue_sums(void *context)
{
    struct run *run = context;
    optimizer_sum_squares(&run->optimizer, part_of, run, run->device_record->words.squares.limb);
}

static int micro_gradients(struct run *run, uint64_t round, const struct model_memory *memory,
                           struct step_sums *counts, struct err *err)
{
    const struct batch *batch;
    range_begin(&run->ranges, RANGE_DATA);
    int status = loader_next(run->loader, &batch, err);
    range_end(&run->ranges);
    if (status == LOADER_END)
        return err_set(err, -ENODATA, "the training data ended before the run did");
    if (status != LOADER_BATCH)
        return status;
    uint32_t items = batch->items_count;
    struct model_input input;
    uint64_t valid = 0;
    range_begin(&run->ranges, RANGE_UPLOAD);
    status = batch_upload_push(&run->upload, run->loader, batch, &input, &valid, err);
    range_end(&run->ranges);
    if (status)
        return status;
    input.loss_scale = &run->device_record->gate.loss_factor;
    const struct pass pass = {run, &input, memory};
    range_begin(&run->ranges, RANGE_MICRO);
    status = run_pass(run, &pass, err);
    if (!status)
        status = reduction_end_round(run->reduction, round, err);
    switch_device_time(run, TIME_OTHER);
    range_end(&run->ranges);
    if (status) {
        int cause = offload_status(run->activations.offload, err);
        return cause ? cause : status;
    }
    counts->valid_count += (int64_t)valid;
    counts->samples_count += items;
    range_begin(&run->ranges, RANGE_UPLOAD);
    status = batch_upload_pop(&run->upload, err);
    range_end(&run->ranges);
    return status;
}

/* In a round this rank may have no micro-batch while others have one. */
static int make_round(struct run *run, uint64_t round, struct step_sums *counts, struct err *err)
{
    struct model_memory memory;
    int status = run_begin_pass(run, round, &memory, err);
    if (status)
        return status;
    if (reduction_computes(run->reduction, round)) {
        status = micro_gradients(run, round, &memory, counts, err);
    } else {
        model_walk(run->model, &run->stage, &memory, MODEL_FORWARD);
        model_walk(run->model, &run->stage, &memory, MODEL_BACKWARD);
        status = reduction_end_round(run->reduction, round, err);
    }
    return status ? status : weights_status(&run->weights, err);
}

static int sum_gradients(struct run *run, struct step_sums *counts, struct err *err)
{
    int status = reduction_begin(run->reduction, run->step, err);
    for (uint64_t round = 0; round < reduction_rounds(run->reduction) && !status; round++)
        status = make_round(run, round, counts, err);
    range_begin(&run->ranges, RANGE_NORM);
    switch_device_time(run, TIME_REDUCE);
    if (!status)
        status = reduction_finish(run->reduction, err);
    if (!status)
        status = ops_graph_run(&run->sums, 0, queue_sums, run, err);
    switch_device_time(run, TIME_OTHER);
    range_end(&run->ranges);
    return status;
}

static int update(struct run *run, struct err *err)
{
    const struct update_scalars *scalars = &run->device_record->gate.scalars;
    int status = 0;
    for (uint64_t group = 0; group < run->params->groups_count && !status; group++) {
        const void *gradients;
        if (run->params->groups[group].trained_elements == 0)
            continue;
        status = reduction_shard(run->reduction, group, &gradients, err);
        if (status)
            return status;
        range_begin(&run->ranges, RANGE_STAGE);
        ckpt_saver_before_update(run->saver, (uint32_t)group);
        range_end(&run->ranges);
        optimizer_update_shard(&run->optimizer, group, weights_shard(&run->weights, group),
                               weights_compute_shard(&run->weights, group), gradients, scalars);
        status = weights_updated(&run->weights, group, err);
    }
    return status;
}

/* counts: as for reduce_sums. If a pass could not be queued, there is no update. */
static int agree_on_step(struct run *run, struct step_sums *counts, struct err *err)
{
    counts->bad_count = (int64_t)loader_stats(run->loader).bad_samples_count;
    counts->stop = run_wants_stop(run);
    counts->save = run->comm->rank == 0 && triggers_save_by_clock(&run->triggers, clock_now_ns());
    counts->saving = run->saver && ckpt_saver_busy(run->saver);
    range_begin(&run->ranges, RANGE_REDUCE);
    int status = reduce_sums(run, counts, err);
    range_end(&run->ranges);
    if (!status)
        status = offload_status(run->activations.offload, err);
    if (!status)
        status = run->ops->table->status(run->ops, err);
    if (status)
        return status;
    run->delivered_count += (uint64_t)counts->samples_count;
    return run_limit_bad(run, run->loader, (uint64_t)counts->bad_count, run->delivered_count, err);
}

/* valid_count: of the samples behind the gradients. With local updates a rank decides by its own
 * words, and gets those of all ranks afterwards. */
static int decide_and_update(struct run *run, int64_t valid_count, struct err *err)
{
    bool is_local = run_is_local(run);
    range_begin(&run->ranges, RANGE_UPDATE);
    switch_device_time(run, TIME_UPDATE);
    run->weights_differ = run->moments_differ = is_local;
    run_gate_update(run, valid_count);
    int status = is_local ? upload_sums(run, err) : 0;
    if (!status)
        status = update(run, err);
    switch_device_time(run, TIME_OTHER);
    range_end(&run->ranges);
    return status;
}

int run_step(struct run *run, struct err *err)
{
    struct step_sums counts = {0};
    const struct comm_traffic before = comm_counts_read(&run->traffic);
    int status = run_begin_sums(run, err);
    if (!status)
        status = sum_gradients(run, &counts, err);
    if (status)
        return status;
    int64_t own_valid_count = counts.valid_count;
    status = agree_on_step(run, &counts, err);
    if (!status)
        status = run_check_kept(run, err);
    if (!status)
        status =
            decide_and_update(run, run_is_local(run) ? own_valid_count : counts.valid_count, err);
    if (status)
        return status;
    run->serialized = run->config->parallel.debug;
    run->step_traffic = comm_counts_since(&run->traffic, &before);
    run->stop_requested = counts.stop > 0;
    run->save_requested = counts.save > 0;
    run->save_has_ended = counts.saving == 0;
    status = run_end_step(run, &counts, err);
    range_begin(&run->ranges, RANGE_WAIT);
    if (!status)
        status = run_drain(run, run->device->ops->is_host ? 0 : UPDATE_GATE_AHEAD_MAX, err);
    range_end(&run->ranges);
    return status;
}
