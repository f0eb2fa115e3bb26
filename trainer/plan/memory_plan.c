/*
 * memory_plan — see memory_plan.h.
 */
#include "trainer/plan/memory_plan.h"

#include "base/str.h"
#include "trainer/run/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With the settings of config; UINT64_MAX if they are invalid. */
static uint64_t required_bytes(const struct trainer_dry_run_options *options,
                               const struct train_config *config)
{
    struct trainer_dry_run_options other = *options;
    struct trainer_dry_run dry_run;
    other.config = config;
    return trainer_dry_run(&other, &dry_run, NULL)
               ? UINT64_MAX
               : memory_plan_required_bytes(dry_run.device_bytes);
}

/* Appends how much memory config saves, then resets it to the run's. */
static void add_saving(const struct trainer_dry_run_options *options, struct train_config *config,
                       const char *setting, uint64_t needed_bytes, char text[ERR_TEXT_BYTES_MAX])
{
    char size[STR_SIZE_BYTES];
    size_t length = strlen(text);
    uint64_t other = required_bytes(options, config);
    if (other < needed_bytes)
        snprintf(text + length, ERR_TEXT_BYTES_MAX - length, "%s%s saves %s", length ? ", " : "",
                 setting, str_format_size(needed_bytes - other, size));
    *config = *options->config;
}

/* config: scratch space. */
static void list_savings(const struct trainer_dry_run_options *options, uint64_t needed_bytes,
                         struct train_config *config, char text[ERR_TEXT_BYTES_MAX])
{
    char setting[64];
    *config = *options->config;
    if (config->batch.micro % 2 == 0) {
        config->batch.micro /= 2;
        snprintf(setting, sizeof setting, "batch.micro: %" PRIu64, config->batch.micro);
        add_saving(options, config, setting, needed_bytes, text);
    }
    if (options->is_evaluation)
        return;
    config->model.recompute = 1;
    add_saving(options, config, "model.recompute: 1", needed_bytes, text);
    config->model.offload = 1;
    add_saving(options, config, "model.offload: 1", needed_bytes, text);
    config->parallel.offload.optimizer = true;
    add_saving(options, config, "parallel.offload.optimizer: true", needed_bytes, text);
    config->batch.schedule[0] = '\0';
    add_saving(options, config, "no batch.schedule", needed_bytes, text);
    config->batch.global = config->batch.micro;
    if (options->ranks == 1) /* each rank needs a micro-batch */
        add_saving(options, config, "batch.global equal to batch.micro", needed_bytes, text);
}

static void advise_savings(const struct trainer_dry_run_options *options, uint64_t needed_bytes,
                           struct err *err)
{
    char text[ERR_TEXT_BYTES_MAX] = "";
    struct train_config *config = malloc(sizeof *config);
    if (config)
        list_savings(options, needed_bytes, config, text);
    free(config);
    err_advise(err, "%s", text[0] ? text : "make the model smaller");
}

static void describe_usage(const struct usage *usage, uint64_t needed_bytes, struct err *err)
{
    static const struct {
        enum mem_use use;
        const char *name;
    } parts[] = {
        {MEM_FOR_PARAMETERS, "weights"}, {MEM_FOR_GRADIENTS, "gradients"},
        {MEM_FOR_OPTIMIZER, "moments"},  {MEM_FOR_ACTIVATIONS, "activations of a micro-batch"},
        {MEM_FOR_LOADER, "batches"},     {MEM_FOR_COMMUNICATION, "communication"},
        {MEM_FOR_WORK, "work"}};
    char text[ERR_TEXT_BYTES_MAX - 48], size[STR_SIZE_BYTES];
    uint64_t pinned = 0;
    int at = snprintf(text, sizeof text, "%s:", str_format_size(needed_bytes, size));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && (size_t)at < sizeof text; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s %s %s", i ? "," : "", parts[i].name,
                       str_format_size(usage->peak_bytes[parts[i].use][MEM_DEVICE], size));
    for (int use = 0; use < MEM_USE_COUNT; use++)
        pinned += usage->peak_bytes[use][MEM_PINNED];
    err_expected(err, "%s; %s pinned on the host", text, str_format_size(pinned, size));
}

int memory_plan_check(const struct trainer_dry_run_options *options, struct device *device,
                      struct err *err)
{
    struct device_mem_info info;
    struct trainer_dry_run dry_run;
    char size[STR_SIZE_BYTES];
    device->ops->mem_info(device, &info);
    if (device->ops->is_host || info.total_bytes == 0)
        return 0;
    int status = trainer_dry_run(options, &dry_run, err);
    if (status)
        return status;
    uint64_t needed_bytes = memory_plan_required_bytes(dry_run.device_bytes),
             allocated_bytes = info.used_bytes[MEM_DEVICE];
    if (needed_bytes <= info.free_bytes + allocated_bytes)
        return 0;
    err_set(err, -ENOMEM, "the device's memory is too small for this run");
    if (!err)
        return -ENOMEM;
    describe_usage(&dry_run.usage, needed_bytes, err);
    err_found(err, "%s free", str_format_size(info.free_bytes + allocated_bytes, size));
    advise_savings(options, needed_bytes, err);
    return -ENOMEM;
}

int memory_plan_check_run(const struct run *run, bool is_training, struct err *err)
{
    const struct trainer_dry_run_options options = {
        .config = run->original_config,
        .io = run->io,
        .log = run->options->log,
        .backend = ops_null_cuda(),
        .rank = run->data.batching.rank,
        .ranks = run->data.batching.ranks,
        .local_ranks = is_training ? run->compute.shards_count : 1,
        .uses_nccl = run->ranks.bulk_comm->takes_device_memory,
        .shape = &run->data.shape,
        .epoch = is_training ? epochs_epoch_at_step(&run->data.epochs, run->step) : 0,
        .is_evaluation = !is_training,
        .memory_only = true};
    return memory_plan_check(&options, run->compute.device, err);
}
