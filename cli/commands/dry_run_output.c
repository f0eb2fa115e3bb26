/*
 * dry_run_output — see dry_run.h.
 */
#include "cli/commands/dry_run.h"

#include "base/bytes.h"
#include "cli/commands/dry_run_fits.h"
#include "cli/core/output.h"
#include "cli/report/usage_json.h"
#include "trainer/config/strategy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void take_larger(struct usage *most, const struct usage *other)
{
    usage_take_peaks(most, other);
    most->traffic.sent_bytes = bytes_max(most->traffic.sent_bytes, other->traffic.sent_bytes);
    most->traffic.received_bytes =
        bytes_max(most->traffic.received_bytes, other->traffic.received_bytes);
}

bool dry_run_allows(const struct train_config *config)
{
    struct err err = {0};
    return config_check(config, NULL, "", &err) == 0;
}

int dry_run_config(const struct dry_run_options *options, const struct train_config *config,
                   struct planned *ret_planned, struct err *err)
{
    struct trainer_dry_run_options dry_run = {.config = config,
                                              .io = options->io,
                                              .log = options->log,
                                              .ranks = options->ranks,
                                              .local_ranks = options->local_ranks};
    *ret_planned = (struct planned){0};
    int status = trainer_dry_run_model(config, &dry_run.model, err);
    dry_run.by_nccl =
        !status && trainer_dry_run_is_by_nccl(config, dry_run.model, options->local_ranks);
    for (uint32_t i = 0; i < options->ranks && !status; i++) {
        struct trainer_dry_run one;
        dry_run.rank = i;
        status = trainer_dry_run(&dry_run, &one, err);
        if (status)
            return status;
        if (i == 0)
            ret_planned->first = one;
        dry_run.shape = &ret_planned->first.shape;
        if (i > 0)
            memcpy(one.usage.peak_bytes[MEM_FOR_LOADER],
                   ret_planned->first.usage.peak_bytes[MEM_FOR_LOADER],
                   sizeof one.usage.peak_bytes[MEM_FOR_LOADER]);
        if (i < DRY_RUN_RANKS_MAX)
            ret_planned->ranks[i] = one.usage;
        take_larger(&ret_planned->most, &one.usage);
        ret_planned->flops = one.flops > ret_planned->flops ? one.flops : ret_planned->flops;
        ret_planned->checkpoint_bytes += one.file_bytes;
    }
    ret_planned->is_host = dry_run.model && dry_run.model->is_host;
    return status;
}

static void write_planned(struct jsonx_writer *json, const struct dry_run_options *options,
                          const struct planned *planned)
{
    usage_write_memory(json, &planned->most);
    jsonx_begin_object(json, "a_step");
    jsonx_write_u64(json, "sent_bytes", planned->most.traffic.sent_bytes);
    jsonx_write_u64(json, "received_bytes", planned->most.traffic.received_bytes);
    jsonx_write_f64(json, "flops", planned->flops);
    jsonx_end_object(json);
    jsonx_write_u64(json, "checkpoint_bytes", planned->checkpoint_bytes);
    if (!options->as_json)
        return;
    jsonx_begin_array(json, "ranks");
    for (uint32_t rank = 0; rank < options->ranks && rank < DRY_RUN_RANKS_MAX; rank++) {
        jsonx_begin_object(json, NULL);
        jsonx_write_u64(json, "rank", rank);
        usage_write_memory(json, &planned->ranks[rank]);
        usage_write_traffic(json, &planned->ranks[rank]);
        jsonx_end_object(json);
    }
    jsonx_end_array(json);
}

static void write_run(struct jsonx_writer *json, const struct dry_run_options *options,
                      const struct planned *planned)
{
    jsonx_write_u64(json, "ranks_count", options->ranks);
    jsonx_write_u64(json, "parameters_count", planned->first.parameter_count);
    jsonx_write_u64(json, "steps_count", planned->first.steps);
    jsonx_write_u64(json, "micro_batches_count", planned->first.micros_count);
}

static int print_one(const struct dry_run_options *options, struct err *err)
{
    struct planned *planned = malloc(sizeof *planned);
    if (!planned)
        return err_set(err, -ENOMEM, "out of memory for a dry run");
    int status = dry_run_config(options, options->config, planned, err);
    if (!status) {
        struct output output;
        output_begin(&output);
        jsonx_write_string(&output.json, "strategy",
                           strategy_at(options->config->parallel.strategy)->name);
        write_run(&output.json, options, planned);
        write_planned(&output.json, options, planned);
        status = output_end(&output, options->as_json, stdout, err);
    }
    free(planned);
    return status;
}

static void print_size(uint64_t bytes)
{
    char text[STR_SIZE_BYTES];
    printf(" %9s", str_format_size(bytes, text));
}

/* Prints one row of the table; columns are in the order of enum mem_use. */
static void print_row(const char *strategy, const struct planned *planned)
{
    printf("%-13s", strategy);
    for (int use = 0; use < MEM_USE_COUNT; use++)
        print_size(usage_bytes(&planned->most, (enum mem_use)use));
    print_size(usage_total_bytes(&planned->most));
    print_size(planned->most.traffic.sent_bytes);
    print_size(planned->checkpoint_bytes);
    printf(" %8.3g\n", planned->flops);
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

static void print_planned(struct jsonx_writer *json, const struct dry_run_options *options,
                          const char *strategy, const struct planned *planned)
{
    if (!options->as_json) {
        print_row(strategy, planned);
        return;
    }
    jsonx_begin_object(json, NULL);
    jsonx_write_string(json, "strategy", strategy);
    write_planned(json, options, planned);
    jsonx_end_object(json);
}

static int print_all(const struct dry_run_options *options, struct err *err)
{
    struct planned *planned = malloc(sizeof *planned);
    struct train_config *config = malloc(sizeof *config);
    struct output output;
    bool is_first = true;
    int status = planned && config ? 0 : err_set(err, -ENOMEM, "out of memory for a dry run");
    output_begin(&output);
    for (uint32_t i = 0; strategy_names[i] && !status; i++) {
        *config = *options->config;
        config->parallel.strategy = i;
        if (!dry_run_allows(config))
            continue;
        status = dry_run_config(options, config, planned, err);
        if (status)
            break;
        if (is_first && options->as_json) {
            write_run(&output.json, options, planned);
            jsonx_begin_array(&output.json, "strategies");
        } else if (is_first) {
            print_titles();
        }
        is_first = false;
        print_planned(&output.json, options, strategy_names[i], planned);
    }
    if (!status && options->as_json) {
        jsonx_end_array(&output.json);
        status = output_end(&output, true, stdout, err);
    } else {
        output_abort(&output);
    }
    free(config);
    free(planned);
    return status;
}

/* Logs the assumptions that are not in the configuration. */
static void log_assumptions(const struct dry_run_options *options)
{
    const struct ops_null_model *model;
    if (options->ranks > 1 && trainer_dry_run_model(options->config, &model, NULL) == 0 &&
        trainer_dry_run_is_by_nccl(options->config, model, options->local_ranks))
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
    return options->all_strategies ? print_all(options, err) : print_one(options, err);
}
