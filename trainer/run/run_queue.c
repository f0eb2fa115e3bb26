/*
 * run_queue — queued steps, whose results the host reads later. See run.h.
 *
 * The host does not wait for a step. Its result is copied, after the step, to its own slot in
 * pinned memory. The host reads it when QUEUED_STEPS_MAX steps are queued or when it is needed: for
 * a progress line, an evaluation, a checkpoint, the end. If device memory is host memory, a step is
 * done when it is queued, and is read at once.
 */
#include "trainer/run/run.h"

#include <errno.h>

int run_open_queue(struct run *run, struct err *err)
{
    struct device *device = run->device;
    const struct device_ops *ops = device->ops;
    int status = ops->mem_alloc(device, MEM_DEVICE, sizeof *run->device_record,
                                (void **)&run->device_record, err);
    if (!status)
        status = ops->mem_alloc(device, MEM_PINNED, QUEUED_STEPS_MAX * sizeof *run->host_records,
                                (void **)&run->host_records, err);
    if (!status)
        status = ops->mem_alloc(device, MEM_PINNED, sizeof *run->host_sums,
                                (void **)&run->host_sums, err);
    for (int i = 0; i < QUEUED_STEPS_MAX && !status; i++) {
        run->queued[i].record = &run->host_records[i];
        status = ops->event_open(device, &run->queued[i].ended, err);
    }
    return status;
}

void run_close_queue(struct run *run)
{
    struct device *device = run->device;
    const struct device_ops *ops = device->ops;
    for (int i = 0; i < QUEUED_STEPS_MAX; i++)
        if (run->queued[i].ended)
            ops->event_close(device, run->queued[i].ended);
    ops->mem_free(device, MEM_PINNED, run->host_sums, sizeof *run->host_sums);
    ops->mem_free(device, MEM_PINNED, run->host_records,
                  QUEUED_STEPS_MAX * sizeof *run->host_records);
    ops->mem_free(device, MEM_DEVICE, run->device_record, sizeof *run->device_record);
}

int run_begin_queue(struct run *run, struct err *err)
{
    const struct update_gate gate = update_gate_begin(&run->scaler, run->optimizer.updates);
    return device_upload(run->device, &run->device_record->gate, &gate, sizeof gate, err);
}

/* A skipped update does not advance the update count, so the request holds the factors of every
 * possible next update. */
void run_gate_update(struct run *run, int64_t valid_count)
{
    struct update_gate_request request = {.valid_count = valid_count,
                                          .clip_norm = run->optimizer.options.clip_norm,
                                          .clip_value = run->optimizer.options.clip_value,
                                          .first_update = run->optimizer.updates};
    for (uint64_t i = 0; i <= run->queued_count; i++) {
        uint64_t updates = request.first_update + i;
        request.factors[i] =
            optimizer_factors(&run->optimizer, updates, schedule_lr(&run->schedule, updates));
    }
    struct step_record *record = run->device_record;
    run->ops->table->gate_update(run->ops, &record->gate, record->words.losses.limb,
                                 record->words.squares.limb, &request);
}

int run_end_step(struct run *run, const struct step_sums *counts, struct err *err)
{
    assert(run->queued_count < QUEUED_STEPS_MAX);
    struct device *device = run->device;
    struct queued_step *newest = &run->queued[++run->step % QUEUED_STEPS_MAX];
    newest->step = run->step;
    newest->valid_count = counts->valid_count;
    newest->samples_count = counts->samples_count;
    run->queued_count++;
    int status = device->ops->copy(device, run->ops->stream, newest->record, run->device_record,
                                   sizeof *newest->record, err);
    return status ? status
                  : device->ops->event_record(device, newest->ended, run->ops->stream, err);
}

static int fail(const struct queued_step *queued, struct err *err)
{
    err_set(err, -EDOM, "loss or gradients of step %llu are not finite",
            (unsigned long long)queued->step);
    err_advise(err, "lower optimizer.lr or optimizer.clip_norm; the newest checkpoint is from "
                    "before this step");
    return -EDOM;
}

static void add_to_window(struct step_totals *totals, const struct queued_step *queued)
{
    const struct step_sums *words = &queued->record->words;
    const struct update_gate *gate = &queued->record->gate;
    totals->samples_count += (uint64_t)queued->samples_count;
    totals->gradient_norm = gate->norm;
    totals->lr = gate->scalars.lr;
    if (!gate->is_finite) /* the mean covers only the steps that counted */
        return;
    exact_sum_merge(&totals->losses, &words->losses);
    totals->valid_count += (uint64_t)queued->valid_count;
    totals->correct_count += (uint64_t)words->correct_count;
}

static int retire_oldest(struct run *run, struct err *err)
{
    const struct queued_step *oldest =
        &run->queued[(run->step + 1 - run->queued_count) % QUEUED_STEPS_MAX];
    const struct update_gate *gate = &oldest->record->gate;
    int status = run->device->ops->event_wait(run->device, oldest->ended, err);
    int first = status ? run->ops->table->sync(run->ops, err) : 0; /* returns the original error */
    if (status)
        return first ? first : status;
    run->queued_count--;
    if (gate->has_failed) /* on all ranks, since all have the same sums */
        return run_agree(run, fail(oldest, err), "the end", err);
    if (!gate->is_finite)
        log_line(
            run->options->log, LOG_INFO,
            "step %llu was skipped because a gradient overflowed; the loss scale is now %g, was %g",
            (unsigned long long)oldest->step, gate->scaler.scale, run->scaler.scale);
    run->scaler = gate->scaler;
    run->optimizer.updates = gate->updates_count;
    run->device_spent = oldest->record->times.spent;
    add_to_window(&run->window, oldest);
    return 0;
}

int run_drain(struct run *run, uint64_t left, struct err *err)
{
    int status = 0;
    while (run->queued_count > left && !status)
        status = retire_oldest(run, err);
    return status;
}

int run_drain_all(struct run *run, struct err *err)
{
    range_begin(&run->ranges, RANGE_WAIT);
    int status = run_drain(run, 0, err);
    range_end(&run->ranges);
    return status;
}
