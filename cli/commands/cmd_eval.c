/*
 * cmd_eval — `millrace eval CONFIG.yaml --from CHECKPOINT`.
 */
#include "cli/core/output.h"
#include "cli/core/signals.h"
#include "cli/core/storage.h"
#include "cli/ranks/rank_session.h"
#include "cli/verbs/verbs.h"
#include "trainer/trainer.h"

#include <errno.h>

struct eval_args {
    struct common_args common;
    struct option_list set;
    const char *from;
};

#define AT(member) offsetof(struct eval_args, member)
static const struct option option_rows[] = {
    {"from", 0, OPTION_TEXT, AT(from), "CHECKPOINT", NULL,
     "weights: a checkpoint, a checkpoint or run folder, a consolidated safetensors file, or a "
     "Hugging Face model",
     .required = true},
    {"set", 0, OPTION_REPEAT, AT(set), "KEY=VALUE", NULL,
     "override a key of the file, for example data.val=other"},
};

struct reporter {
    struct console *console;
    bool has_reported;
};

static void handle_report(void *context, const struct trainer_report *report)
{
    struct reporter *reporter = context;
    struct console *console = reporter->console;
    if (report->event == TRAINER_FAILED) {
        console_error_line(console, report->text);
        reporter->has_reported = true;
    }
    if (report->event == TRAINER_STARTED)
        console_line(console, "%s", report->text);
    else if (report->event == TRAINER_EVALUATING && report->done_count == 0)
        progress_begin(console, "evaluating", PROGRESS_SAMPLES);
    if (report->event == TRAINER_EVALUATING)
        progress_update(console, report->done_count, report->total_count);
}

static int print_result(const struct eval_args *args, const struct train_config *config,
                        const struct trainer_evaluation *evaluation, struct err *err)
{
    struct output output;
    struct jsonx_writer *json = &output.json;
    output_begin(&output);
    jsonx_write_string(json, "dataset", config->data.val);
    jsonx_write_string(json, "from", args->from);
    jsonx_write_u64(json, "valid_count", evaluation->valid_count);
    jsonx_write_f64(json, "loss", evaluation->loss);
    jsonx_write_f64(json, "accuracy", evaluation->accuracy);
    jsonx_write_f64(json, "elapsed_seconds", evaluation->seconds);
    return output_end(&output, args->common.json, stdout, err);
}

static int read_config(const struct invocation *invocation, struct train_config *config,
                       struct io **ret_io, struct err *err)
{
    const struct eval_args *args = invocation->args;
    int status = config_load(invocation->positional[0], (const char *const *)args->set.items,
                             args->set.count, config, err);
    return status ? status : storage_open(config->data.val, NULL, ret_io, err);
}

static int compare_ranks(const struct eval_args *args, const struct trainer_options *options,
                         struct err *err)
{
    struct rank_record record = {0};
    rank_record_add(&record, "the verb", "eval");
    rank_record_add(&record, "--from", args->from);
    int status = rank_session_compare(options->comm, options->config, &record, err);
    rank_record_deinit(&record);
    return status;
}

static int run(const struct invocation *invocation, struct err *err)
{
    const struct eval_args *args = invocation->args;
    struct reporter reporter = {.console = invocation->console};
    struct train_config config;
    struct trainer_evaluation evaluation;
    struct trainer_options options = {
        .config = &config,
        .log = invocation->log,
        .report = handle_report,
        .report_context = &reporter,
    };
    int status = rank_session_open(invocation, &options.comm, &options.local_rank, err);
    if (status)
        return status;
    status =
        rank_session_agree(options.comm, read_config(invocation, &config, &options.io, err), err);
    if (!status)
        status = compare_ranks(args, &options, err);
    if (!status) {
        options.stop = signals_install();
        status = trainer_evaluate(&options, args->from, &evaluation, err);
        progress_end(invocation->console);
    }
    if (reporter.has_reported) {
        err_clear(err);
        status = status == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
    }
    if (!status && options.comm->rank == 0)
        status = print_result(args, &config, &evaluation, err);
    io_close(options.io);
    return rank_session_close(invocation, options.comm, status, err);
}

static const char *const examples[] = {
    "millrace eval train.yaml --from runs/a/ckpt",
    "millrace eval train.yaml --from model.safetensors --json",
    NULL,
};

const struct verb verb_eval = {
    .name = "eval",
    .arguments = {"CONFIG.yaml", 1, 1},
    .summary = "Evaluate a model on the validation data of a configuration.",
    .details =

        "The configuration describes the model and sets `data.val`. Each sample is used once. "
        "The loss is the mean over all images or tokens, in nats; the accuracy is top-1. The "
        "result is bit-identical to an evaluation during training with the same weights.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct eval_args),
    .run = run,
};
