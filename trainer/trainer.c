/*
 * trainer — runs a configuration to its last step, in phases of constant batch size. See trainer.h.
 */
#include "trainer/trainer.h"

#include "base/clock.h"
#include "base/os/machine.h"
#include "trainer/plan/memory_plan.h"
#include "trainer/run/loop.h"
#include "trainer/run/startup_messages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kept from one phase to the next. Owner thread. */
struct phase_state {
    uint64_t began_ns;
    bool has_next_phase;
    struct usage usage; /* of this rank; maximum of each peak over the phases */
    struct triggers triggers;
};

static int fill_result(const struct loop *loop, enum trainer_end end, struct trainer_result *result,
                       struct err *err)
{
    const struct run *run = loop->run;
    struct cursor cursor;
    int status = run_data_cursor(&run->data, &run->ranks, &cursor, err);
    *result = (struct trainer_result){.end = end,
                                      .step = run->step,
                                      .has_evaluation = run->control.evaluation.is_present,
                                      .val_loss = run->control.evaluation.loss,
                                      .val_accuracy = run->control.evaluation.accuracy,
                                      .set_digest = cursor.set_digest,
                                      .sequence_digest = cursor.sequence_digest,
                                      .data_limit = loader_stats(run->data.loader).limit,
                                      .profiled_steps = loop->profile.profiled_steps,
                                      .profiled_ns = loop->profile.duration_ns};
    memcpy(result->range_times, run->ranges.times, sizeof result->range_times);
    memcpy(result->trace_path, loop->profile.trace_path, sizeof result->trace_path);
    snprintf(result->checkpoint_path, sizeof result->checkpoint_path, "%s/step-%08" PRIu64,
             run->saving.folder, run->step);
    return status;
}

static int report_usage(const struct run *run, const struct usage *usage, struct err *err)
{
    struct usage own = *usage;
    size_t ranks = (size_t)run->ranks.comm->ranks;
    void *gathered;
    own.resident_peak_bytes = machine_process_peak_bytes();
    int status = run_ranks_gather(&run->ranks, &own, sizeof own, "the resource usage of the ranks",
                                  &gathered, err);
    if (status)
        return status;
    const struct usage *all = gathered;
    for (size_t rank = 0; rank < ranks; rank++) {
        const struct trainer_report line = {.event = TRAINER_USAGE,
                                            .step = run->step,
                                            .steps = run->steps,
                                            .rank = (int)rank,
                                            .usage = &all[rank]};
        run_report(run, &line);
    }
    free(gathered);
    return 0;
}

static void merge_usage(const struct run *run, struct phase_state *state)
{
    const struct comm_traffic traffic = run_step_traffic(run);
    struct usage usage = usage_measure(run->compute.device, &traffic);
    usage_merge_peaks(&usage, &state->usage);
    state->usage = usage;
}

static void begin_triggers(struct run *run, const struct phase_state *state)
{
    const struct train_config *config = run->config;
    uint64_t elements = 0; /* written by this rank */
    for (uint64_t i = 0; i < run->saving.tensors.count; i++) {
        uint64_t count = 1;
        for (uint32_t d = 0; d < run->saving.tensors.list[i].rank; d++)
            count *= run->saving.tensors.list[i].extent[d];
        elements +=
            run->saving.tensors.list[i].replicated ? count / run->data.batching.ranks : count;
    }
    const struct triggers_options options = {
        .every = config->checkpoint.every,
        .on_epoch_end = config->checkpoint.on_epoch_end,
        .epoch_steps = run->data.shape.steps,
        .first_step = epochs_first_step(&run->data.epochs,
                                        epochs_epoch_at_step(&run->data.epochs, run->step)),
        .max_time_ns = config->run.max_time_ns,
        .began_ns = state->began_ns,
        .before_ns = run->options->before_ns,
        .state_bytes = elements * ops_master_bytes(run->compute.ops),
        .steps_ahead = run->compute.device->ops->is_host ? 0 : UNREAD_STEPS_MAX,
    };
    run->control.triggers = state->triggers;
    if (state->has_next_phase)
        triggers_change_batch(&run->control.triggers, &options);
    else
        triggers_init(&run->control.triggers, &options);
}

static enum trainer_end end_reason(const struct run *run)
{
    if ((run->step >= run->steps && !loop_evaluation_is_due(run)) ||
        early_stop_is_over(&run->control.early_stop))
        return TRAINER_DONE;
    return run->control.time_is_up ? TRAINER_OUT_OF_TIME : TRAINER_STOPPED;
}

static bool batch_changes(const struct run *run)
{
    return run->step == run->control.phase_end_step && run->step < run->steps &&
           !run->control.stop_requested && !early_stop_is_over(&run->control.early_stop);
}

static int run_phase(const struct trainer_options *options, struct phase_state *state,
                     struct trainer_result *ret_result, struct err *err)
{
    struct run run;
    struct err detail = {0};
    int status = run_open(&run, options, memory_plan_check_run, err);
    if (status)
        return status;
    begin_triggers(&run, state);
    startup_messages_print(&run);
    struct loop loop = {0};
    status = loop_open(&loop, &run, &detail);
    if (!status)
        status = loop_run(&loop, &detail);
    if (!status) /* other ranks may still need weights from this one */
        status = weights_drain(&run.compute.weights, &detail);
    if (!status)
        status = fill_result(&loop, end_reason(&run), ret_result, &detail);
    merge_usage(&run, state);
    state->has_next_phase = !status && batch_changes(&run);
    if (!status && !state->has_next_phase)
        status = report_usage(&run, &state->usage, &detail);
    state->triggers = run.control.triggers;
    loop_close(&loop);
    if (status) {
        run_abort(&run, status, &detail);
        if (err)
            *err = detail;
    }
    run_close(&run);
    return status;
}

/* Adds the profile of earlier phases. Keeps only the newest trace path. */
static void add_profile(struct trainer_result *result, const struct trainer_result *earlier)
{
    if (earlier->profiled_steps.last == 0)
        return;
    result->profiled_steps.first = earlier->profiled_steps.first;
    if (result->profiled_steps.last == 0)
        result->profiled_steps.last = earlier->profiled_steps.last;
    result->profiled_ns += earlier->profiled_ns;
    if (!result->trace_path[0])
        memcpy(result->trace_path, earlier->trace_path, sizeof result->trace_path);
    for (int i = 0; i < RANGE_COUNT; i++) {
        result->range_times[i].count += earlier->range_times[i].count;
        result->range_times[i].ns += earlier->range_times[i].ns;
    }
}

int trainer_run(const struct trainer_options *options, struct trainer_result *ret_result,
                struct err *err)
{
    struct trainer_options next = *options;
    struct trainer_result result = {0}, earlier;
    struct phase_state state = {.began_ns =
                                    options->began_ns > 0 ? options->began_ns : clock_now_ns()};
    do {
        earlier = result;
        int status = run_phase(&next, &state, &result, err);
        if (status)
            return status;
        add_profile(&result, &earlier);
        next.resume = CONFIG_RESUME_AUTO; /* from the checkpoint that the phase saved */
    } while (state.has_next_phase);
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
    if (!status && run.control.stop_requested)
        status = err_set(err, -ECANCELED, "the evaluation was stopped on request");
    if (!status)
        *ret_evaluation = (struct trainer_evaluation){
            .valid_count = run.control.evaluation.valid_count,
            .loss = run.control.evaluation.loss,
            .accuracy = run.control.evaluation.accuracy,
            .seconds = clock_seconds(clock_now_ns() - began_ns),
        };
    run_close(&run);
    return status;
}
