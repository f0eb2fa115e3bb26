/*
 * loop — see loop.h.
 */
#include "trainer/run/loop.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>

static void reset_baseline(struct loop *loop)
{
    struct run *run = loop->run;
    loop->baseline = (struct counter_baseline){
        .samples_count = run->queue.window.samples_count,
        .valid_count = run->queue.window.valid_count,
        .data_wait_ns = loader_stats(run->data.loader).wait_ns,
        .checkpoint_wait_ns = ckpt_saver_stats(run->saving.saver).blocked_ns,
        .device_times = run->queue.device_times};
}

/* step: from 1 */
static uint32_t epoch_of_step(const struct run *run, uint64_t step)
{
    return (uint32_t)epochs_epoch_at_step(&run->data.epochs, step > 0 ? step - 1 : 0);
}

/* A failure is only logged: it must not end the run. */
static void write_metrics(const struct run *run, const struct trainer_report *line)
{
    struct err err = {0};
    if (run->metrics && metrics_write(run->metrics, line, &err))
        log_err(run->options->log, LOG_WARN, &err, "could not write the metrics of step %" PRIu64,
                line->step);
}

static void report_progress(struct loop *loop)
{
    struct run *run = loop->run;
    const struct counter_baseline *baseline = &loop->baseline;
    const struct step_totals *totals = &run->queue.window;
    uint64_t now_ns = clock_now_ns();
    struct category_times time = category_timer_take(&run->ranges.timer, now_ns);
    double seconds = clock_seconds(category_times_training_ns(&time));
    double wait_ns = (double)(loader_stats(run->data.loader).wait_ns - baseline->data_wait_ns);
    double save_ns =
        (double)(ckpt_saver_stats(run->saving.saver).blocked_ns - baseline->checkpoint_wait_ns);
    double seconds_per_step =
        clock_seconds(now_ns - loop->began_ns) / (double)(run->step - loop->began_step);
    double tokens_count = (double)(totals->valid_count - baseline->valid_count);
    double samples_per_second = (double)(totals->samples_count - baseline->samples_count) / seconds;
    double micros_per_second =
        samples_per_second / (double)(run->data.batching.micro * run->data.batching.ranks);
    struct trainer_report line = {
        .event = TRAINER_PROGRESS,
        .step = run->step,
        .steps = run->steps,
        .epoch = epoch_of_step(run, run->step),
        .loss = exact_sum_value(&totals->losses) / (double)totals->valid_count,
        .lr = totals->lr,
        .gradient_norm = totals->gradient_norm,
        .samples_per_second = samples_per_second,
        .tokens_per_second = run->config->model.type == MODEL_VIT ? 0 : tokens_count / seconds,
        .data_wait_share = wait_ns / 1e9 / seconds,
        .checkpoint_wait_share = save_ns / 1e9 / seconds,
        .time = time,
        .elapsed_seconds = seconds,
        .device_time = category_times_since(&run->queue.device_times, &baseline->device_times),
        .is_async = run->ranges.is_async,
        .remaining_seconds = seconds_per_step * (double)(run->steps - run->step),
        .metrics = device_metrics_read(&loop->device_metrics,
                                       model_flops(run->compute.model) * micros_per_second),
    };
    run_report(run, &line);
    write_metrics(run, &line);
    run->queue.window = (struct step_totals){0};
    reset_baseline(loop);
}

static void check_early_stop(struct run *run)
{
    struct early_stop *stop = &run->control.early_stop;
    bool by_accuracy = run->config->early_stop.metric == CONFIG_METRIC_VAL_ACCURACY;
    if (stop->options.patience == 0)
        return;
    early_stop_note(stop, run->step,
                    by_accuracy ? run->control.evaluation.accuracy : run->control.evaluation.loss);
    if (early_stop_is_over(stop) && !stop->has_best)
        run_log(run,
                "early stop after step %" PRIu64 ": %s was not finite in any of %" PRIu64
                " evaluations",
                run->step, config_metric_name(run->config->early_stop.metric), stop->waited_count);
    else if (early_stop_is_over(stop))
        run_log(run,
                "early stop after step %" PRIu64 ": %s was best after step %" PRIu64
                ", %.6g, %" PRIu64 " evaluations ago",
                run->step, config_metric_name(run->config->early_stop.metric), stop->best_step,
                stop->best, stop->waited_count);
}

static int evaluate(struct loop *loop, struct err *err)
{
    struct run *run = loop->run;
    range_begin(&run->ranges, RANGE_EVALUATE); /* excluded from the training rate */
    int status = run_average_weights(run, true, err);
    if (!status)
        status = run_evaluate(run, err);
    range_end(&run->ranges);
    if (status || run->control.evaluation.step != run->step)
        return status;
    struct trainer_report line = {.event = TRAINER_EVALUATED,
                                  .step = run->step,
                                  .steps = run->steps,
                                  .epoch = epoch_of_step(run, run->step),
                                  .loss = run->control.evaluation.loss,
                                  .accuracy = run->control.evaluation.accuracy};
    run_report(run, &line);
    write_metrics(run, &line);
    check_early_stop(run);
    return 0;
}

/* Waits for the save in progress. All ranks call it after the same step. Returns the save's error
 * only for the last save, or with checkpoint.on_save_error: stop. */
static int finish_save(struct loop *loop, bool is_last, struct err *err)
{
    struct run *run = loop->run;
    if (!loop->pending_save.in_flight)
        return 0;
    struct err detail = {0};
    int status = ckpt_saver_wait(run->saving.saver, &detail);
    loop->pending_save.in_flight = false;
    uint64_t took_ns = ckpt_saver_stats(run->saving.saver).last_save_ns;
    struct trainer_report line = {.step = loop->pending_save.step,
                                  .steps = run->steps,
                                  .epoch = epoch_of_step(run, loop->pending_save.step)};
    if (!status) {
        triggers_note_save(&run->control.triggers, took_ns);
        stop_monitor_note_save(&loop->stop_monitor, run->control.triggers.save_ns);
        line.event = TRAINER_SAVED;
        run_report(run, &line);
        return 0;
    }
    triggers_note_failed_save(&run->control.triggers, took_ns);
    char text[ERR_LINE_BYTES_MAX];
    line.event = TRAINER_SAVE_FAILED;
    line.text = err_format(&detail, text, sizeof text);
    if (status != -EREMOTEIO || run->ranks.comm->rank == 0)
        run_report(run, &line);
    if (is_last || run->config->checkpoint.on_save_error == CONFIG_SAVE_ERROR_STOP) {
        if (err)
            *err = detail;
        return status;
    }
    return 0;
}

static int save(struct loop *loop, bool is_last, struct err *err)
{
    struct run *run = loop->run;
    range_begin(&run->ranges, RANGE_SAVE);
    if (is_last && run->control.stop_requested && !run->control.time_is_up)
        stop_monitor_begin_last_save(&loop->stop_monitor);
    triggers_note_save_begun(&run->control.triggers, clock_now_ns());
    int status = finish_save(loop, false, err);
    if (!status)
        status = run_average_state(run, err);
    if (!status) /* the last update must have reached the arrays */
        status = run->compute.ops->table->sync(run->compute.ops, err);
    if (!status)
        status = run_encode_state(run, err);
    if (!status)
        status =
            ckpt_saver_save(run->saving.saver, run->step, str_text(&run->saving.state_json), err);
    range_end(&run->ranges);
    if (status)
        return status;
    loop->pending_save.in_flight = true;
    loop->pending_save.step = run->step;
    return is_last || !run->config->checkpoint.async ? finish_save(loop, is_last, err) : 0;
}

static bool is_due(uint64_t every, uint64_t step)
{
    return every > 0 && step % every == 0;
}

static bool progress_is_due(const struct run *run)
{
    return run->step == run->steps || is_due(run->config->log.every, run->step);
}

bool loop_evaluation_is_due(const struct run *run)
{
    bool is_scheduled = run->step == run->steps || is_due(run->config->eval.every, run->step);
    bool done = run->control.evaluation.is_present && run->control.evaluation.step == run->step;
    return is_scheduled && !done && run->step > 0 && run->config->data.val[0];
}

/* checkpoint.keep.best ranks checkpoints by evaluations, so each evaluation needs a checkpoint. */
static bool save_is_due(const struct run *run, bool evaluates)
{
    return triggers_save_by_step(&run->control.triggers, run->step) ||
           run->control.save_requested ||
           (evaluates && run->config->checkpoint.keep.best.count > 0);
}

static int execute_step(struct run *run, struct err *err)
{
    triggers_begin_step(&run->control.triggers, clock_now_ns());
    range_begin(&run->ranges, RANGE_STEP);
    int status = run_step(run, err);
    if (!status)
        status = run_average_weights(run, false, err);
    range_end(&run->ranges);
    triggers_end_step(&run->control.triggers, clock_now_ns());
    return status;
}

static int check_sync(struct run *run, struct err *err)
{
    if (!run->sync_check || !is_due(run->config->parallel.check_sync, run->step))
        return 0;
    return run_check_sync(run, err);
}

static int advance_one_step(struct loop *loop, struct err *err)
{
    struct run *run = loop->run;
    int status = profile_before_step(&loop->profile, err);
    if (status)
        return status;
    status = execute_step(run, err);
    if (status)
        return status;
    stop_monitor_note_step(&loop->stop_monitor, run->step);
    log_line(run->options->log, LOG_DEBUG, "step %" PRIu64 " queued; micro-batches ahead: %" PRIu64,
             run->step, loader_stats(run->data.loader).ahead_count);
    struct trainer_report stepped = {
        .event = TRAINER_STEP_QUEUED, .step = run->step, .steps = run->steps};
    run_report(run, &stepped);
    status = check_sync(run, err);
    if (status)
        return status;
    bool is_end = run->step == run->control.phase_end_step || run->control.stop_requested;
    bool evaluates = loop_evaluation_is_due(run) && !run->control.stop_requested;
    bool saves = is_end || save_is_due(run, evaluates);
    if (progress_is_due(run) || evaluates || saves)
        status = run_drain_all(run, err);
    if (!status && progress_is_due(run))
        report_progress(loop);
    if (!status && evaluates)
        status = evaluate(loop, err);
    if (!status && run->control.save_has_ended)
        status = finish_save(loop, false, err);
    is_end = is_end || run->control.stop_requested || early_stop_is_over(&run->control.early_stop);
    if (!status && (saves || is_end))
        status = save(loop, is_end, err);
    return status ? status : profile_after_step(&loop->profile, is_end, err);
}

/* Runs an evaluation that a stop skipped, so that stops do not change which checkpoints are best.
 */
static int run_missed_evaluation(struct loop *loop, struct err *err)
{
    struct run *run = loop->run;
    bool is_end = run->step == run->steps;
    if (!loop_evaluation_is_due(run))
        return 0;
    int status = evaluate(loop, err);
    is_end = is_end || early_stop_is_over(&run->control.early_stop);
    if (status || run->control.stop_requested ||
        (!is_end && run->config->checkpoint.keep.best.count == 0))
        return status;
    return save(loop, is_end, err);
}

int loop_run(struct loop *loop, struct err *err)
{
    struct run *run = loop->run;
    int status = run_missed_evaluation(loop, err);
    while (run->step < run->control.phase_end_step && !run->control.stop_requested &&
           !early_stop_is_over(&run->control.early_stop) && !status)
        status = advance_one_step(loop, err);
    stop_monitor_close(&loop->stop_monitor);
    return status;
}

int loop_open(struct loop *loop, struct run *run, struct err *err)
{
    loop->run = loop->profile.run = run;
    loop->began_ns = clock_now_ns();
    loop->began_step = run->step;
    device_metrics_open(&loop->device_metrics, run->compute.ops);
    profile_open(&loop->profile);
    run->ranges.is_async = !run->compute.device->ops->is_host;
    category_timer_start(&run->ranges.timer, loop->began_ns);
    reset_baseline(loop);
    const struct triggers *triggers = &run->control.triggers;
    return stop_monitor_open(&loop->stop_monitor, run, triggers->has_saved ? triggers->save_ns : 0,
                             err);
}

void loop_close(struct loop *loop)
{
    stop_monitor_close(&loop->stop_monitor);
    profile_stop(&loop->profile);
    device_metrics_close(&loop->device_metrics);
}
