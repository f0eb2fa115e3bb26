/*
 * trainer — the loop: steps, and what falls due after them. See trainer.h.
 */
#include "trainer/trainer.h"

#include "base/clock.h"
#include "base/os/machine.h"
#include "trainer/plan/memory_plan.h"
#include "trainer/report/device_metrics.h"
#include "trainer/run/profile.h"
#include "trainer/run/run.h"
#include "trainer/run/startup_messages.h"
#include "trainer/run/stop_monitor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is measured between two lines of progress; what the lines say of the loss is in run->window,
 * which a checkpoint keeps. Owner thread. */
struct window {
    uint64_t samples_count, valid_count;       /* of run->window, when the clock began */
    uint64_t data_wait_ns, checkpoint_wait_ns; /* of the run, when the clock began */
    struct time_spent device_spent;            /* likewise */
};

/* A save that is in progress. */
struct saving {
    bool in_flight;
    uint64_t step;
};

struct loop {
    struct run *run;
    struct window window;
    struct device_metrics metrics;
    struct saving saving;
    struct profile profile;
    struct stop_monitor stop_monitor;
    uint64_t began_ns, began_step; /* for the time that remains */
};

/* What goes on from one stretch of a run to the next. Owner thread. */
struct phases {
    uint64_t began_ns;
    bool continues;     /* there was a stretch, and another is to come */
    struct usage usage; /* of this rank, in all stretches: of each peak the highest */
    struct triggers triggers;
};

static void start_clock(struct loop *loop)
{
    struct run *run = loop->run;
    loop->window = (struct window){.samples_count = run->window.samples_count,
                                   .valid_count = run->window.valid_count,
                                   .data_wait_ns = loader_stats(run->loader).wait_ns,
                                   .checkpoint_wait_ns = ckpt_saver_stats(run->saver).blocked_ns,
                                   .device_spent = run->device_spent};
}

/* The epoch of the samples of a step, from 1: a batch has samples of one epoch. */
static uint32_t epoch_of_step(const struct run *run, uint64_t step)
{
    return (uint32_t)epochs_at(&run->epochs, step > 0 ? step - 1 : 0);
}

/* A run is worth more than a line about it: what can't be written is said, and the run goes on. */
static void write_metrics(const struct run *run, const struct trainer_report *line)
{
    struct err err = {0};
    char text[ERR_LINE_BYTES_MAX];
    if (run->metrics && metrics_write(run->metrics, line, &err))
        log_line(run->options->log, LOG_WARN, "could not write the metrics of step %" PRIu64 ": %s",
                 line->step, err_format(&err, text, sizeof text));
}

static void report_steps(struct loop *loop)
{
    struct run *run = loop->run;
    const struct window *clock = &loop->window;
    const struct step_totals *totals = &run->window;
    uint64_t now_ns = clock_now_ns();
    struct time_spent time = time_parts_take(&run->ranges.parts, now_ns);
    double seconds = clock_seconds(time_spent_in_training(&time));
    double wait_ns = (double)(loader_stats(run->loader).wait_ns - clock->data_wait_ns);
    double save_ns = (double)(ckpt_saver_stats(run->saver).blocked_ns - clock->checkpoint_wait_ns);
    double pace = clock_seconds(now_ns - loop->began_ns) / (double)(run->step - loop->began_step);
    double tokens_count = (double)(totals->valid_count - clock->valid_count);
    double samples_per_second = (double)(totals->samples_count - clock->samples_count) / seconds;
    double micros_per_second =
        samples_per_second / (double)(run->batching.micro * run->batching.ranks);
    struct trainer_report line = {
        .event = TRAINER_STEP,
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
        .device_time = time_spent_since(&run->device_spent, &clock->device_spent),
        .queues = run->ranges.queues,
        .remaining_seconds = pace * (double)(run->steps - run->step),
        .metrics = device_metrics_read(&loop->metrics, model_flops(run->model) * micros_per_second),
    };
    run_report(run, &line);
    write_metrics(run, &line);
    run->window = (struct step_totals){0};
    start_clock(loop);
}

/* Notes the evaluation, and says where it is the one too many. */
static void check_early_stop(struct run *run)
{
    struct early_stop *stop = &run->early_stop;
    bool by_accuracy = run->config->early_stop.metric == CONFIG_METRIC_VAL_ACCURACY;
    if (stop->options.patience == 0)
        return;
    early_stop_note(stop, run->step, by_accuracy ? run->evaluation.accuracy : run->evaluation.loss);
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
    range_begin(&run->ranges, RANGE_EVALUATE); /* no part of the training rate */
    int status = run_average_weights(run, true, err);
    if (!status)
        status = run_evaluate(run, err);
    range_end(&run->ranges);
    if (status || run->evaluation.step != run->step)
        return status; /* it failed, or a stop was asked for in the middle */
    struct trainer_report line = {.event = TRAINER_EVALUATED,
                                  .step = run->step,
                                  .steps = run->steps,
                                  .epoch = epoch_of_step(run, run->step),
                                  .loss = run->evaluation.loss,
                                  .accuracy = run->evaluation.accuracy};
    run_report(run, &line);
    write_metrics(run, &line);
    check_early_stop(run);
    return 0;
}

/* Says how the save that was in progress ended, on all ranks after the same step; a failure ends
 * the run where the policy, or the end of the run, wants it. */
static int settle_save(struct loop *loop, bool is_last, struct err *err)
{
    struct run *run = loop->run;
    if (!loop->saving.in_flight)
        return 0;
    struct err detail = {0};
    int status = ckpt_saver_wait(run->saver, &detail);
    loop->saving.in_flight = false;
    uint64_t took_ns = ckpt_saver_stats(run->saver).last_save_ns;
    struct trainer_report line = {.step = loop->saving.step,
                                  .steps = run->steps,
                                  .epoch = epoch_of_step(run, loop->saving.step)};
    if (!status) {
        triggers_note_save(&run->triggers, took_ns);
        stop_monitor_note_save(&loop->stop_monitor, run->triggers.save_ns);
        line.event = TRAINER_SAVED;
        run_report(run, &line);
        return 0;
    }
    triggers_note_failed_save(&run->triggers, took_ns);
    char text[ERR_LINE_BYTES_MAX];
    line.event = TRAINER_SAVE_FAILED;
    line.text = err_format(&detail, text, sizeof text);
    if (status != -EREMOTEIO || run->comm->rank == 0)
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
    if (is_last && run->stop_requested && !run->time_is_up)
        stop_monitor_begin_last_save(&loop->stop_monitor);
    triggers_note_save_begun(&run->triggers, clock_now_ns());
    int status = settle_save(loop, false, err);
    if (!status)
        status = run_average_state(run, err);
    if (!status) /* the arrays are what the last update makes of them */
        status = run->ops->table->sync(run->ops, err);
    if (!status)
        status = run_encode_state(run, err);
    if (!status)
        status = ckpt_saver_save(run->saver, run->step, str_text(&run->state_json), err);
    range_end(&run->ranges);
    if (status)
        return status;
    loop->saving.in_flight = true;
    loop->saving.step = run->step;
    return is_last || !run->config->checkpoint.async ? settle_save(loop, is_last, err) : 0;
}

static bool is_due(uint64_t every, uint64_t step)
{
    return every > 0 && step % every == 0;
}

/* A line of progress stands after the same steps whether or not the run was stopped or killed
 * between them. */
static bool line_is_due(const struct run *run)
{
    return run->step == run->steps || is_due(run->config->log.every, run->step);
}

static bool evaluation_is_due(const struct run *run)
{
    bool here = run->step == run->steps || is_due(run->config->eval.every, run->step);
    bool done = run->evaluation.present && run->evaluation.step == run->step;
    return here && !done && run->step > 0 && run->config->data.val[0];
}

/* An evaluation that may be one of the best is worth nothing without its weights. */
static bool save_is_due(const struct run *run, bool evaluates)
{
    return triggers_save_by_step(&run->triggers, run->step) || run->save_requested ||
           (evaluates && run->config->checkpoint.keep.best.count > 0);
}

static int make_step(struct run *run, struct err *err)
{
    triggers_begin_step(&run->triggers, clock_now_ns());
    range_begin(&run->ranges, RANGE_STEP);
    int status = run_step(run, err);
    if (!status)
        status = run_average_weights(run, false, err);
    range_end(&run->ranges);
    triggers_end_step(&run->triggers, clock_now_ns());
    return status;
}

/* Before anything is made of what the step gave. */
static int check_sync(struct run *run, struct err *err)
{
    if (!run->sync_check || !is_due(run->config->parallel.check_sync, run->step))
        return 0;
    return run_check_sync(run, err);
}

/* One step and what follows from it, for which the steps that are queued have to be done. */
static int advance(struct loop *loop, struct err *err)
{
    struct run *run = loop->run;
    int status = profile_begin(&loop->profile, err);
    if (status)
        return status;
    status = make_step(run, err);
    if (status)
        return status;
    stop_monitor_note_step(&loop->stop_monitor, run->step);
    log_line(run->options->log, LOG_DEBUG, "step %" PRIu64 " queued; micro-batches ahead: %" PRIu64,
             run->step, loader_stats(run->loader).ahead_count);
    struct trainer_report stepped = {
        .event = TRAINER_STEPPED, .step = run->step, .steps = run->steps};
    run_report(run, &stepped);
    status = check_sync(run, err);
    if (status)
        return status;
    bool is_end = run->step == run->phase_end_step || run->stop_requested;
    bool evaluates = evaluation_is_due(run) && !run->stop_requested;
    bool saves = is_end || save_is_due(run, evaluates);
    if (line_is_due(run) || evaluates || saves)
        status = run_drain_all(run, err);
    if (!status && line_is_due(run))
        report_steps(loop);
    if (!status && evaluates)
        status = evaluate(loop, err);
    if (!status && run->save_has_ended)
        status = settle_save(loop, false, err);
    is_end = is_end || run->stop_requested ||
             early_stop_is_over(&run->early_stop); /* by the evaluation */
    if (!status && (saves || is_end))
        status = save(loop, is_end, err);
    return status ? status : profile_end(&loop->profile, is_end, err);
}

/* The evaluation of a step after which the run was stopped: the checkpoint of that step is saved
 * again with what it says, so that which steps are among the best does not depend on stops. */
static int catch_up(struct loop *loop, struct err *err)
{
    struct run *run = loop->run;
    bool is_end = run->step == run->steps;
    if (!evaluation_is_due(run))
        return 0;
    int status = evaluate(loop, err);
    is_end = is_end || early_stop_is_over(&run->early_stop);
    if (status || run->stop_requested || (!is_end && run->config->checkpoint.keep.best.count == 0))
        return status;
    return save(loop, is_end, err);
}

static int fill_result(const struct loop *loop, enum trainer_end end, struct trainer_result *result,
                       struct err *err)
{
    const struct run *run = loop->run;
    struct cursor cursor;
    int status = run_cursor(run, &cursor, err);
    *result = (struct trainer_result){.end = end,
                                      .step = run->step,
                                      .evaluated = run->evaluation.present,
                                      .val_loss = run->evaluation.loss,
                                      .val_accuracy = run->evaluation.accuracy,
                                      .once = cursor.once,
                                      .order = cursor.order,
                                      .data_limit = loader_stats(run->loader).limit,
                                      .profiled = loop->profile.made,
                                      .profiled_ns = loop->profile.ns};
    memcpy(result->ranges, run->ranges.times, sizeof result->ranges);
    memcpy(result->trace, loop->profile.trace, sizeof result->trace);
    snprintf(result->checkpoint, sizeof result->checkpoint, "%s/step-%08" PRIu64, run->folder,
             run->step);
    return status;
}

/* All ranks', by the first. */
static int report_usage(const struct run *run, const struct usage *usage, struct err *err)
{
    struct comm_options options = run_comm_options(run, "the resource usage of the ranks");
    struct comm_work work;
    size_t ranks = (size_t)run->comm->ranks;
    struct usage *all = calloc(ranks, sizeof *all);
    if (!all)
        return err_set(err, -ENOMEM, "out of memory for the resource usage of %zu ranks", ranks);
    all[run->comm->rank] = *usage;
    all[run->comm->rank].resident_peak_bytes = machine_process_peak_bytes();
    int status = run->comm->ops->all_gather(run->comm, &all[run->comm->rank], all, sizeof *all,
                                            &options, &work, err);
    if (!status)
        status = comm_wait(run->comm, &work, err);
    if (status) {
        comm_retain(all);
        return status;
    }
    for (size_t rank = 0; rank < ranks; rank++) {
        const struct trainer_report line = {.event = TRAINER_USAGE,
                                            .step = run->step,
                                            .steps = run->steps,
                                            .rank = (int)rank,
                                            .usage = &all[rank]};
        run_report(run, &line);
    }
    free(all);
    return 0;
}

/* Of a stretch that has ended: its peaks, and what its last step moved. */
static void take_usage(const struct run *run, struct phases *phases)
{
    const struct comm_traffic traffic = run_traffic(run);
    struct usage usage = usage_of(run->device, &traffic);
    usage_take_peaks(&usage, &phases->usage);
    phases->usage = usage;
}

static void begin_triggers(struct run *run, const struct phases *phases)
{
    const struct train_config *config = run->config;
    uint64_t elements = 0; /* that this rank writes; what all hold is shared out */
    for (uint64_t i = 0; i < run->tensors_count; i++) {
        uint64_t count = 1;
        for (uint32_t d = 0; d < run->tensors[i].rank; d++)
            count *= run->tensors[i].extent[d];
        elements += run->tensors[i].replicated ? count / run->batching.ranks : count;
    }
    const struct triggers_options options = {
        .every = config->checkpoint.every,
        .on_epoch_end = config->checkpoint.on_epoch_end,
        .epoch_steps = run->shape.steps,
        .first_step = epochs_first_step(&run->epochs, epochs_at(&run->epochs, run->step)),
        .max_time_ns = config->run.max_time_ns,
        .began_ns = phases->began_ns,
        .before_ns = run->options->before_ns,
        .state_bytes = elements * ops_master_bytes(run->ops),
        .steps_ahead = run->device->ops->is_host ? 0 : UPDATE_GATE_AHEAD_MAX,
    };
    run->triggers = phases->triggers;
    if (phases->continues)
        triggers_change_batch(&run->triggers, &options);
    else
        triggers_init(&run->triggers, &options);
}

static enum trainer_end how_it_ended(const struct run *run)
{
    if ((run->step >= run->steps && !evaluation_is_due(run)) ||
        early_stop_is_over(&run->early_stop))
        return TRAINER_DONE;
    return run->time_is_up ? TRAINER_OUT_OF_TIME : TRAINER_STOPPED;
}

static int run_loop(struct loop *loop, struct err *err)
{
    struct run *run = loop->run;
    int status = catch_up(loop, err);
    while (run->step < run->phase_end_step && !run->stop_requested &&
           !early_stop_is_over(&run->early_stop) && !status)
        status = advance(loop, err);
    return status;
}

/* Is it saved and not at its end, but the next step of another batch? */
static bool batch_changes(const struct run *run)
{
    return run->step == run->phase_end_step && run->step < run->steps && !run->stop_requested &&
           !early_stop_is_over(&run->early_stop);
}

/* The steps of one batch: to the end of the run, or to where the batch becomes another one. */
static int run_phase(const struct trainer_options *options, struct phases *phases,
                     struct trainer_result *ret_result, struct err *err)
{
    struct run run;
    struct err detail = {0};
    int status = run_open(&run, options, memory_plan_check_run, err);
    if (status)
        return status;
    begin_triggers(&run, phases);
    startup_messages(&run);
    struct loop loop = {
        .run = &run, .profile.run = &run, .began_ns = clock_now_ns(), .began_step = run.step};
    device_metrics_open(&loop.metrics, run.ops);
    profile_open(&loop.profile);
    run.ranges.queues = !run.device->ops->is_host;
    time_parts_start(&run.ranges.parts, loop.began_ns);
    start_clock(&loop);
    status = stop_monitor_open(&loop.stop_monitor, &run,
                               run.triggers.has_saved ? run.triggers.save_ns : 0, &detail);
    if (!status)
        status = run_loop(&loop, &detail);
    stop_monitor_close(&loop.stop_monitor);
    if (!status) /* what this rank still has to give */
        status = weights_drain(&run.weights, &detail);
    if (!status)
        status = fill_result(&loop, how_it_ended(&run), ret_result, &detail);
    take_usage(&run, phases);
    phases->continues = !status && batch_changes(&run);
    if (!status && !phases->continues)
        status = report_usage(&run, &phases->usage, &detail);
    phases->triggers = run.triggers;
    profile_stop(&loop.profile);
    device_metrics_close(&loop.metrics);
    if (status) {
        run_abort(&run, status, &detail);
        if (err)
            *err = detail;
    }
    run_close(&run);
    return status;
}

/* With what was measured in earlier stretches; each has a trace of its own, of which the last is
 * told. */
static void add_profile(struct trainer_result *result, const struct trainer_result *earlier)
{
    if (earlier->profiled.last == 0)
        return;
    result->profiled.first = earlier->profiled.first;
    if (result->profiled.last == 0)
        result->profiled.last = earlier->profiled.last;
    result->profiled_ns += earlier->profiled_ns;
    if (!result->trace[0])
        memcpy(result->trace, earlier->trace, sizeof result->trace);
    for (int i = 0; i < RANGE_COUNT; i++) {
        result->ranges[i].count += earlier->ranges[i].count;
        result->ranges[i].ns += earlier->ranges[i].ns;
    }
}

int trainer_run(const struct trainer_options *options, struct trainer_result *ret_result,
                struct err *err)
{
    struct trainer_options next = *options;
    struct trainer_result result = {0}, earlier;
    struct phases phases = {.began_ns = options->began_ns > 0 ? options->began_ns : clock_now_ns()};
    do {
        earlier = result;
        int status = run_phase(&next, &phases, &result, err);
        if (status)
            return status;
        add_profile(&result, &earlier);
        next.resume = CONFIG_RESUME_AUTO; /* by the checkpoint that the stretch left */
    } while (phases.continues);
    *ret_result = result;
    return 0;
}

int trainer_evaluate(const struct trainer_options *options, const char *from,
                     struct trainer_evaluation *ret_evaluation, struct err *err)
{
    struct run run;
    struct err detail = {0};
    int status = run_open_for_evaluation(&run, options, memory_plan_check_run, from, err);
    if (status)
        return status;
    uint64_t began_ns = clock_now_ns();
    status = run_evaluate(&run, &detail);
    if (status) {
        run_abort(&run, status, &detail);
        if (err)
            *err = detail;
    }
    if (!status && run.stop_requested)
        status = err_set(err, -ECANCELED, "the evaluation was stopped on request");
    if (!status)
        *ret_evaluation = (struct trainer_evaluation){
            .valid_count = run.evaluation.valid_count,
            .loss = run.evaluation.loss,
            .accuracy = run.evaluation.accuracy,
            .seconds = clock_seconds(clock_now_ns() - began_ns),
        };
    run_close(&run);
    return status;
}
