/*
 * cmd_train — `millrace train CONFIG.yaml`.
 */
#include "base/clock.h"
#include "base/os/trace.h"
#include "cli/commands/dry_run.h"
#include "cli/commands/stage_advice.h"
#include "cli/core/output.h"
#include "cli/core/signals.h"
#include "cli/core/start_time.h"
#include "cli/core/storage.h"
#include "cli/core/temporary_files.h"
#include "cli/ranks/rank_session.h"
#include "cli/report/step_line.h"
#include "cli/report/usage_json.h"
#include "cli/verbs/verbs.h"
#include "trainer/report/scalars.h"
#include "trainer/trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct train_args {
    struct common_args common;
    struct option_list set;
    const char *resume, *profile;
    bool print_config, dry_run, all_strategies;
    uint64_t fits_bytes, ranks, local_ranks;
};

#define AT(member) offsetof(struct train_args, member)
static const struct option option_rows[] = {
    {"set", 0, OPTION_REPEAT, AT(set), "KEY=VALUE", NULL,
     "override a key of the file, for example optimizer.lr=1e-4"},
    {"resume", 0, OPTION_TEXT, AT(resume), "auto|never|PATH", NULL,
     "auto: resume from the newest complete checkpoint, if there is one; never: an existing "
     "checkpoint is an error; PATH: a checkpoint, or a checkpoint or run folder (default: "
     "checkpoint.resume)"},
    {"profile", 0, OPTION_TEXT, AT(profile), "A:B", NULL,
     "print a time profile of steps A to B, write a trace of all threads of all ranks to "
     "run.dir/trace-A-B.json for ui.perfetto.dev, and limit an attached profiler to these "
     "steps (nsys profile --capture-range=cudaProfilerApi)"},
    {"print-config", 0, OPTION_FLAG, AT(print_config),
     .help = "print the effective configuration and exit"},
    {"dry-run", 0, OPTION_FLAG, AT(dry_run),
     .help = "print a rank's memory by purpose, and its traffic and computation per step, and "
             "exit"},
    {"all-strategies", 0, OPTION_FLAG, AT(all_strategies),
     .help = "with --dry-run: print one line per strategy"},
    {"fits", 0, OPTION_SIZE, AT(fits_bytes), "SIZE", NULL,
     "with --dry-run: list the settings (strategy, recomputation, offloading) that fit into SIZE "
     "per rank, cheapest first"},
    {"ranks", 0, OPTION_COUNT, AT(ranks), "N", NULL,
     "with --dry-run: number of ranks (default: the ranks that were started)", .max = 65536},
    {"local-ranks", 0, OPTION_COUNT, AT(local_ranks), "N", NULL,
     "with --dry-run: number of ranks per machine (default: all)", .max = 65536},
};

struct reporter {
    struct console *console;
    bool as_json;
    bool has_step_bar;
    bool has_reported;
};

static void print_step(struct console *console, const struct trainer_report *report)
{
    struct str line = {0};
    step_line_format(
        report, console->is_terminal ? console_columns(STDERR_FILENO, UINT_MAX) : UINT_MAX, &line);
    console_line(console, "%s", str_text(&line));
    str_deinit(&line);
}

static void log_usage(const struct log *log, const struct trainer_report *report)
{
    struct str text = {0};
    char size[STR_SIZE_BYTES];
    for (int i = 0; i < MEM_USE_COUNT; i++) {
        enum mem_use use = (enum mem_use)i;
        str_add_format(&text, "%s%s %s", i ? ", " : "", usage_name(use),
                       str_format_size(usage_bytes(report->usage, use), size));
    }
    log_line(log, LOG_DEBUG,
             "rank %d used at most: %s; per step, it sent %" PRIu64 " bytes and received %" PRIu64,
             report->rank, str_text(&text), report->usage->traffic.sent_bytes,
             report->usage->traffic.received_bytes);
    str_deinit(&text);
}

static void print_text_event(struct console *console, const struct trainer_report *report)
{
    switch (report->event) {
    case TRAINER_STARTED:
    case TRAINER_STOPPING:
        console_line(console, "%s", report->text);
        break;
    case TRAINER_PROGRESS:
        print_step(console, report);
        break;
    case TRAINER_EVALUATED:
        console_line(console, "step %" PRIu64 "/%" PRIu64 "  validation loss %.4f  accuracy %.2f%%",
                     report->step, report->steps, report->loss, report->accuracy * 100);
        break;
    case TRAINER_SAVED:
        console_line(console, "step %" PRIu64 "  checkpoint saved", report->step);
        break;
    case TRAINER_SAVE_FAILED:
        log_line(&console->log, LOG_ERROR, "%s", report->text);
        break;
    case TRAINER_USAGE:
        log_usage(&console->log, report);
        break;
    default:
        break;
    }
}

/* The step bar restarts after an evaluation, so that its rate excludes evaluations. */
static void show_progress(struct reporter *reporter, const struct trainer_report *report)
{
    if (report->event == TRAINER_EVALUATING) {
        if (report->done_count == 0)
            progress_begin(reporter->console, "evaluating", PROGRESS_SAMPLES);
        reporter->has_step_bar = false;
        progress_update(reporter->console, report->done_count, report->total_count);
        return;
    }
    if (!reporter->has_step_bar)
        progress_begin(reporter->console, "training", PROGRESS_STEPS);
    reporter->has_step_bar = true;
    progress_update(reporter->console, report->step, report->steps);
}

static void print_json_event(const struct trainer_report *report)
{
    static const char *const names[] = {
        [TRAINER_STARTED] = "started",         [TRAINER_PROGRESS] = "step",
        [TRAINER_EVALUATED] = "evaluated",     [TRAINER_SAVED] = "saved",
        [TRAINER_SAVE_FAILED] = "save_failed", [TRAINER_USAGE] = "used"};
    struct output output;
    struct jsonx_writer *json = &output.json;
    output_begin(&output);
    jsonx_write_string(json, "event", names[report->event]);
    if (report->text)
        jsonx_write_string(json, "text", report->text);
    if (report->event != TRAINER_STARTED)
        jsonx_write_u64(json, "step", report->step);
    if (report->event == TRAINER_PROGRESS || report->event == TRAINER_EVALUATED)
        jsonx_write_u64(json, "steps_count", report->steps);
    if (report->event == TRAINER_EVALUATED) {
        jsonx_write_u64(json, "epoch", report->epoch);
        jsonx_write_f64(json, "loss", report->loss);
        jsonx_write_f64(json, "accuracy", report->accuracy);
    }
    if (report->event == TRAINER_USAGE) {
        jsonx_write_i64(json, "rank", report->rank);
        usage_write_memory(json, report->usage);
        usage_write_traffic(json, report->usage);
        jsonx_write_u64(json, "resident_peak_bytes", report->usage->resident_peak_bytes);
    }
    if (report->event == TRAINER_PROGRESS) {
        struct scalar scalars[SCALARS_MAX];
        scalars_write(json, scalars, scalars_from_report(report, scalars));
        jsonx_write_f64(json, "remaining_seconds", report->remaining_seconds);
    }
    /* output_flush detects write errors at the end */
    output_end(&output, true, stdout, NULL);
    fflush(stdout);
}

/* Called on a helper thread, because the run's thread may hang in a write. */
static void exit_immediately(struct console *console, const char *text)
{
    console_error_line(console, text);
    temporary_files_remove_all();
    _exit(EXIT_FAILED);
}

static void handle_report(void *context, const struct trainer_report *report)
{
    struct reporter *reporter = context;
    if (report->event == TRAINER_STEP_QUEUED || report->event == TRAINER_EVALUATING) {
        show_progress(reporter, report);
        return;
    }
    if (report->event == TRAINER_FAILED) {
        console_error_line(reporter->console, report->text);
        reporter->has_reported = true;
        return;
    }
    if (report->event == TRAINER_STOP_LATE)
        exit_immediately(reporter->console, report->text);
    print_text_event(reporter->console, report);
    if (reporter->as_json && report->event != TRAINER_STOPPING) {
        progress_hide(reporter->console);
        print_json_event(report);
    }
}

/* Writes the main thread's time in the profiled steps. */
static void write_profile(struct jsonx_writer *json, const struct trainer_result *result)
{
    double seconds = clock_seconds(result->profiled_ns);
    jsonx_begin_object(json, "profile");
    jsonx_write_u64(json, "first_step", result->profiled_steps.first);
    jsonx_write_u64(json, "last_step", result->profiled_steps.last);
    jsonx_write_f64(json, "total_seconds", seconds);
    if (result->trace_path[0])
        jsonx_write_string(json, "trace", result->trace_path);
    jsonx_begin_array(json, "ranges");
    for (int range = 0; range < RANGE_COUNT; range++) {
        const struct range_time *time = &result->range_times[range];
        if (time->count == 0)
            continue;
        jsonx_begin_object(json, NULL);
        jsonx_write_string(json, "range", range_name((enum range)range));
        jsonx_write_u64(json, "times_count", time->count);
        jsonx_write_f64(json, "total_seconds", clock_seconds(time->ns));
        jsonx_write_f64(json, "mean_seconds", clock_seconds(time->ns) / (double)time->count);
        jsonx_write_f64(json, "time_share", clock_seconds(time->ns) / seconds);
        jsonx_end_object(json);
    }
    jsonx_end_array(json);
    jsonx_end_object(json);
}

static int print_result(const struct trainer_result *result, const struct common_args *common,
                        struct err *err)
{
    bool has_profile = result->profiled_steps.last > 0;
    struct output output;
    struct jsonx_writer *json = &output.json;
    output_begin(&output);
    if (common->json)
        jsonx_write_string(json, "event", result->end == TRAINER_DONE ? "done" : "stopped");
    jsonx_write_u64(json, "step", result->step);
    if (result->has_evaluation) {
        jsonx_write_f64(json, "val_loss", result->val_loss);
        jsonx_write_f64(json, "val_accuracy", result->val_accuracy);
    }
    jsonx_write_string(json, "data_limited_by", loader_stage_name(result->data_limit));
    if (result->data_limit != LOADER_STAGE_CONSUMER)
        jsonx_write_string(json, "data_advice", stage_advice(result->data_limit));
    jsonx_write_string(json, "checkpoint", result->checkpoint_path);
    jsonx_write_hex64(json, "once", result->set_digest);
    jsonx_write_hex64(json, "order", result->sequence_digest);
    if (has_profile)
        write_profile(json, result);
    return output_end_report(&output, common->json, common->quiet && !has_profile, err);
}

static int print_config(const struct train_config *loaded_config, uint32_t ranks, bool as_json,
                        struct err *err)
{
    struct train_config config = *loaded_config;
    struct str text = {0};
    int status = config_resolve_batch(&config, ranks, err);
    if (status)
        return status;
    if (as_json)
        config_print_json(&config, &text);
    else
        config_print(&config, &text);
    status = str_status(&text);
    if (status)
        err_set(err, status, "out of memory for the configuration");
    else
        printf("%s%s", str_text(&text), as_json ? "\n" : "");
    str_deinit(&text);
    return status;
}

/* Parses "A:B"; NULL: none. -EINVAL. */
static int parse_profile(const char *text, struct trainer_steps *ret_steps, struct err *err)
{
    struct trainer_steps steps = {0};
    int end = 0;
    if (!text)
        return 0;
    if (strspn(text, "0123456789:") == strlen(text) &&
        sscanf(text, "%" SCNu64 ":%" SCNu64 "%n", &steps.first, &steps.last, &end) == 2 &&
        !text[end] && steps.first > 0 && steps.first <= steps.last) {
        *ret_steps = steps;
        return 0;
    }
    err_set(err, -EINVAL, "--profile has an invalid range of steps");
    err_expected(err, "A:B with A <= B, for example 10:12");
    err_found(err, "%.100s", text);
    return -EINVAL;
}

static bool is_dry_run(const struct train_args *args, const struct train_config *config)
{
    return args->dry_run || config_is_null_device(config);
}

static uint32_t effective_ranks(const struct train_args *args, const struct train_config *config,
                                const struct comm *comm)
{
    return is_dry_run(args, config) && args->ranks > 0 ? (uint32_t)args->ranks
                                                       : (uint32_t)comm->ranks;
}

static int check_dry_run(const struct train_args *args, const struct train_config *config,
                         struct err *err)
{
    const char *option = args->all_strategies    ? "--all-strategies"
                         : args->fits_bytes > 0  ? "--fits"
                         : args->ranks > 0       ? "--ranks"
                         : args->local_ranks > 0 ? "--local-ranks"
                                                 : NULL;
    if (is_dry_run(args, config) || !option)
        return 0;
    err_set(err, -EINVAL, "%s needs --dry-run", option);
    err_advise(err, "add --dry-run");
    return -EINVAL;
}

static int read_options(const struct invocation *invocation, struct train_config *config,
                        struct trainer_options *options, struct err *err)
{
    const struct train_args *args = invocation->args;
    int status = config_load(invocation->positional[0], (const char *const *)args->set.items,
                             args->set.count, config, err);
    if (!status)
        status = check_dry_run(args, config, err);
    if (!status)
        status = parse_profile(args->profile, &options->profile, err);
    if (!status)
        status = start_time_parse(getenv(START_TIME_VARIABLE),
                                  clock_wall_ns() - (clock_now_ns() - options->began_ns),
                                  &options->before_ns, err);
    if (status)
        return status;
    options->config = config;
    if (!args->resume)
        options->resume = (enum config_resume_mode)config->checkpoint.resume;
    else if (strcmp(args->resume, "never") == 0)
        options->resume = CONFIG_RESUME_NEVER;
    else if (strcmp(args->resume, "auto") != 0) {
        options->resume = CONFIG_RESUME_PATH;
        options->resume_path = args->resume;
    }
    if (args->print_config)
        return 0;
    status = args->profile ? trace_open(&options->trace, err) : 0;
    return status ? status : storage_open(config->run.dir, NULL, &options->io, err);
}

/* Called on the first rank only. */
static int report_end(const struct invocation *invocation, const struct trainer_result *result,
                      struct err *err)
{
    const struct train_args *args = invocation->args;
    if (args->profile && result->profiled_steps.last == 0)
        log_line(invocation->log, LOG_WARN, "no profile: no step of %s was run", args->profile);
    int status = print_result(result, &args->common, err);
    if (!status && result->end != TRAINER_DONE)
        console_line(invocation->console,
                     "stopped %s after step %" PRIu64 "; run the same command again to continue",
                     result->end == TRAINER_OUT_OF_TIME ? "for run.max_time" : "on request",
                     result->step);
    return status;
}

static int run_training(const struct invocation *invocation, struct trainer_options *options,
                        struct err *err)
{
    const struct train_args *args = invocation->args;
    struct reporter reporter = {.console = invocation->console, .as_json = args->common.json};
    struct trainer_result result;
    options->log = invocation->log;
    options->report = handle_report;
    options->report_context = &reporter;
    int status = trainer_run(options, &result, err);
    progress_end(invocation->console);
    if (reporter.has_reported) {
        err_clear(err);
        return status == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
    }
    if (!status && options->comm->rank == 0)
        status = report_end(invocation, &result, err);
    return status ? status : result.end == TRAINER_DONE ? EXIT_DONE : EXIT_STOPPED;
}

static int run_dry(const struct invocation *invocation, const struct trainer_options *trainer,
                   struct err *err)
{
    const struct train_args *args = invocation->args;
    uint32_t ranks = effective_ranks(args, trainer->config, trainer->comm);
    uint32_t local_ranks = args->local_ranks > 0 ? (uint32_t)args->local_ranks : ranks;
    struct train_config config = *trainer->config;
    int status = config_resolve_batch(&config, ranks, err);
    if (status)
        return status;
    const struct dry_run_options options = {.config = &config,
                                            .accumulation = trainer->config->batch.accumulation,
                                            .io = trainer->io,
                                            .log = invocation->log,
                                            .ranks = ranks,
                                            .local_ranks = local_ranks,
                                            .all_strategies = args->all_strategies,
                                            .fits_bytes = args->fits_bytes,
                                            .as_json = args->common.json};
    if (ranks % local_ranks == 0)
        return trainer->comm->rank == 0 ? dry_run(&options, err) : 0;
    err_set(err, -EINVAL, "%" PRIu32 " ranks cannot be divided into machines of %" PRIu32, ranks,
            local_ranks);
    err_advise(err, "set --local-ranks to a divisor of --ranks");
    return -EINVAL;
}

/* Ranks with different options would wait for each other forever. */
static int compare_ranks(const struct train_args *args, const struct trainer_options *options,
                         struct err *err)
{
    struct rank_record record = {0};
    rank_record_add(&record, "the verb", "train");
    rank_record_add(&record, "--print-config", args->print_config ? "given" : "absent");
    rank_record_add(&record, "--dry-run", args->dry_run ? "given" : "absent");
    rank_record_add(&record, "--resume", args->resume ? args->resume : "absent");
    rank_record_add(&record, "--profile", args->profile ? args->profile : "absent");
    int status = rank_session_compare(options->comm, options->config, &record, err);
    rank_record_deinit(&record);
    return status;
}

static int run(const struct invocation *invocation, struct err *err)
{
    const struct train_args *args = invocation->args;
    struct train_config config;
    struct trainer_options options = {.began_ns = clock_now_ns()};
    options.stop = signals_install(); /* early: a signal to one rank stops all ranks */
    options.stop_requests = &signals_get_counts()->stops;
    signals_ignore_sigpipe();
    int status = rank_session_open(invocation, &options.comm, &options.local_rank, err);
    if (status)
        return status;
    status =
        rank_session_agree(options.comm, read_options(invocation, &config, &options, err), err);
    if (!status)
        status = compare_ranks(args, &options, err);
    if (!status && is_dry_run(args, &config) && !args->print_config)
        status = comm_agree(options.comm, run_dry(invocation, &options, err), NULL, err);
    else if (!status && !args->print_config)
        status = run_training(invocation, &options, err);
    else if (!status && options.comm->rank == 0)
        status = print_config(&config, effective_ranks(args, &config, options.comm),
                              args->common.json, err);
    io_close(options.io);
    status = rank_session_close(invocation, options.comm, status, err);
    trace_close(options.trace); /* the traced threads have ended */
    return status;
}

static const char *const examples[] = {
    "millrace train train.yaml --print-config",
    "millrace train train.yaml --dry-run --ranks 2 --all-strategies",
    "millrace train train.yaml --dry-run --ranks 2 --fits 24GB",
    "millrace train train.yaml",
    "millrace train train.yaml --set run.dir=runs/b --set run.steps=4 --resume never",
    "millrace train train.yaml --set run.dir=runs/c --set run.steps=4 --profile 2:4",
    "millrace train train.yaml --set run.dir=runs/d --set run.steps=4 --set "
    "log.tensorboard=runs/d/events",
    NULL,
};

const struct verb verb_train = {
    .name = "train",
    .arguments = {"CONFIG.yaml", 1, 1},
    .summary = "Train a model from a configuration, resuming where the last run stopped.",
    .details =
        "On SIGTERM, SIGUSR1 or Ctrl-C, the run saves a checkpoint after the current step and "
        "exits with status 75; run the same command again to continue. A run killed at any moment "
        "resumes to bit-identical weights. `millrace help config` lists every key.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct train_args),
    .run = run,
};
