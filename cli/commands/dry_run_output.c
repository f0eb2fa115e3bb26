#include "cli/commands/dry_run.h"

#include "base/bytes.h"
#include "cli/commands/dry_run_fits.h"
#include "cli/core/output.h"
#include "cli/report/usage_json.h"
#include "trainer/config/strategy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void take_maximum(struct usage *peak, const struct usage *other)
{
    usage_merge_peaks(peak, other);
    peak->traffic.sent_bytes = bytes_max(peak->traffic.sent_bytes, other->traffic.sent_bytes);
    peak->traffic.received_bytes =
        bytes_max(peak->traffic.received_bytes, other->traffic.received_bytes);
}

bool dry_run_is_valid(const struct train_config *config)
{
    struct err err = {0};
    return config_check(config, NULL, "", &err) == 0;
}

int dry_run_config(const struct dry_run_options *options, const struct train_config *config,
                   struct dry_run_plan *ret_plan, struct err *err)
{
    struct trainer_dry_run_options dry_run = {.config = config,
                                              .io = options->io,
                                              .log = options->log,
                                              .ranks = options->ranks,
                                              .local_ranks = options->local_ranks};
    *ret_plan = (struct dry_run_plan){0};
    int status = trainer_dry_run_backend(config, &dry_run.backend, err);
    dry_run.uses_nccl =
        !status && trainer_dry_run_uses_nccl(config, dry_run.backend, options->local_ranks);
    for (uint32_t i = 0; i < options->ranks && !status; i++) {
        struct trainer_dry_run run;
        dry_run.rank = i;
        status = trainer_dry_run(&dry_run, &run, err);
        if (status)
            return status;
        if (i == 0)
            ret_plan->rank0 = run;
        dry_run.shape = &ret_plan->rank0.shape;
        if (i > 0)
            memcpy(run.usage.peak_bytes[MEM_FOR_LOADER],
                   ret_plan->rank0.usage.peak_bytes[MEM_FOR_LOADER],
                   sizeof run.usage.peak_bytes[MEM_FOR_LOADER]);
        if (i < DRY_RUN_RANKS_MAX)
            ret_plan->usages[i] = run.usage;
        take_maximum(&ret_plan->peak, &run.usage);
        ret_plan->flops = run.flops > ret_plan->flops ? run.flops : ret_plan->flops;
        ret_plan->checkpoint_bytes += run.file_bytes;
    }
    ret_plan->is_host = dry_run.backend && dry_run.backend->is_host;
    return status;
}

static void write_plan(struct jsonx_writer *json, const struct dry_run_options *options,
                       const struct dry_run_plan *plan)
{
    usage_write_memory(json, &plan->peak);
    jsonx_begin_object(json, "a_step");
    jsonx_write_u64(json, "sent_bytes", plan->peak.traffic.sent_bytes);
    jsonx_write_u64(json, "received_bytes", plan->peak.traffic.received_bytes);
    jsonx_write_f64(json, "flops", plan->flops);
    jsonx_end_object(json);
    jsonx_write_u64(json, "checkpoint_bytes", plan->checkpoint_bytes);
    if (!options->as_json)
        return;
    jsonx_begin_array(json, "ranks");
    for (uint32_t rank = 0; rank < options->ranks && rank < DRY_RUN_RANKS_MAX; rank++) {
        jsonx_begin_object(json, NULL);
        jsonx_write_u64(json, "rank", rank);
        usage_write_memory(json, &plan->usages[rank]);
        usage_write_traffic(json, &plan->usages[rank]);
        jsonx_end_object(json);
    }
    jsonx_end_array(json);
}

static void write_run(struct jsonx_writer *json, const struct dry_run_options *options,
                      const struct dry_run_plan *plan)
{
    jsonx_write_u64(json, "ranks_count", options->ranks);
    jsonx_write_u64(json, "parameters_count", plan->rank0.parameter_count);
    jsonx_write_u64(json, "steps_count", plan->rank0.steps);
    jsonx_write_u64(json, "micro_batches_count", plan->rank0.micros_count);
}

static int print_configured_strategy(const struct dry_run_options *options, struct err *err)
{
    struct dry_run_plan *plan = malloc(sizeof *plan);
    if (!plan)
        return err_set(err, -ENOMEM, "out of memory for a dry run");
    int status = dry_run_config(options, options->config, plan, err);
    if (!status) {
        struct output output;
        output_begin(&output);
        jsonx_write_string(&output.json, "strategy",
                           strategy_at(options->config->parallel.strategy)->name);
        write_run(&output.json, options, plan);
        write_plan(&output.json, options, plan);
        status = output_end(&output, options->as_json, stdout, err);
    }
    free(plan);
    return status;
}

static void print_size(uint64_t bytes)
{
    char text[STR_SIZE_BYTES];
    printf(" %9s", str_format_size(bytes, text));
}

/* Columns are in the order of enum mem_use. */
static void print_row(const char *strategy, const struct dry_run_plan *plan)
{
    printf("%-13s", strategy);
    for (int use = 0; use < MEM_USE_COUNT; use++)
        print_size(usage_bytes(&plan->peak, (enum mem_use)use));
    print_size(usage_total_bytes(&plan->peak));
    print_size(plan->peak.traffic.sent_bytes);
    print_size(plan->checkpoint_bytes);
    printf(" %8.3g\n", plan->flops);
}

static void print_titles(void)
{
    static const char *const titles[] = {
        [MEM_FOR_WORK] = "work",           [MEM_FOR_PARAMETERS] = "params",
        [MEM_FOR_GRADIENTS] = "gradients", [MEM_FOR_OPTIMIZER] = "optimizer",
        [MEM_FOR_ACTIVATIONS] = "activ.",  [MEM_FOR_COMMUNICATION] = "comm.",
        [MEM_FOR_STAGING] = "staging",     [MEM_FOR_LOADER] = "loader"};
    printf("%-13s", "strategy");
    for (int use = 0; use < MEM_USE_COUNT; use++)
        printf(" %9s", titles[use]);
    printf(" %9s %9s %9s %8s\n", "total", "sent", "ckpt", "flops");
}

static void print_plan(struct jsonx_writer *json, const struct dry_run_options *options,
                       const char *strategy, const struct dry_run_plan *plan)
{
    if (!options->as_json) {
        print_row(strategy, plan);
        return;
    }
    jsonx_begin_object(json, NULL);
    jsonx_write_string(json, "strategy", strategy);
    write_plan(json, options, plan);
    jsonx_end_object(json);
}

static int print_all_strategies(const struct dry_run_options *options, struct err *err)
{
    struct dry_run_plan *plan = malloc(sizeof *plan);
    struct train_config *config = malloc(sizeof *config);
    struct output output;
    bool is_first = true;
    int status = plan && config ? 0 : err_set(err, -ENOMEM, "out of memory for a dry run");
    output_begin(&output);
    for (uint32_t i = 0; strategy_names[i] && !status; i++) {
        *config = *options->config;
        config->parallel.strategy = i;
        if (!dry_run_is_valid(config))
            continue;
        status = dry_run_config(options, config, plan, err);
        if (status)
            break;
        if (is_first && options->as_json) {
            write_run(&output.json, options, plan);
            jsonx_begin_array(&output.json, "strategies");
        } else if (is_first) {
            print_titles();
        }
        is_first = false;
        print_plan(&output.json, options, strategy_names[i], plan);
    }
    if (!status && options->as_json) {
        jsonx_end_array(&output.json);
        status = output_end(&output, true, stdout, err);
    } else {
        output_abort(&output);
    }
    free(config);
    free(plan);
    return status;
}

static void log_assumptions(const struct dry_run_options *options)
{
    const struct ops_null_model *model;
    if (options->ranks > 1 && trainer_dry_run_backend(options->config, &model, NULL) == 0 &&
        trainer_dry_run_uses_nccl(options->config, model, options->local_ranks))
        log_line(options->log, LOG_INFO,
                 "traffic of %s assumes transfers between GPUs, one rank per GPU; the memory of "
                 "NCCL itself is not included",
                 config_gradients_bypass_host(options->config) ? "weights and gradients"
                                                               : "gathered weights");
    if (options->config->batch.schedule[0])
        log_line(options->log, LOG_INFO,
                 "batch.schedule: memory is the largest of all its batches; the figures per step "
                 "are for the last batch");
}

int dry_run(const struct dry_run_options *options, struct err *err)
{
    log_assumptions(options);
    if (options->fits_bytes > 0)
        return dry_run_fits(options, err);
    return options->all_strategies ? print_all_strategies(options, err)
                                   : print_configured_strategy(options, err);
}
