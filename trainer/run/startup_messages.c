/*
 * startup_messages — see startup_messages.h.
 */
#include "trainer/run/startup_messages.h"

#include "base/os/thread_pool.h"
#include "trainer/config/strategy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GOOD_QUALITY_MIN 0.9 /* relative to a full shuffle */

static void print_data(const struct run *run)
{
    const struct loader_dataset *list;
    uint32_t count = loader_datasets(run->data.loader, &list);
    const char *kind = order_kind_name(run->data.shape.order.kind);
    if (count > 1)
        run_log(run,
                "data: a mix of %" PRIu32 " datasets, %" PRIu64 " samples and %" PRIu64
                " steps per epoch, order %s, read with %s",
                count, run->data.shape.samples, run->data.shape.steps, kind,
                run->data.shape.engine);
    for (uint32_t i = 0; i < count; i++) {
        const struct order_params *o = &list[i].order;
        const char *path = run->config->data.train.sources[i].path;
        if (count > 1)
            run_log(run,
                    "data: weight %" PRIu64 ", %s, %" PRIu64 " samples (lanes %" PRIu64
                    ", window %" PRIu64 ", run %" PRIu64 ")",
                    list[i].weight, path, o->samples, o->lanes, o->window, o->run);
        else
            run_log(run,
                    "data: %s, %" PRIu64 " samples, %" PRIu64
                    " steps per epoch, order %s (lanes %" PRIu64 ", window %" PRIu64
                    ", run %" PRIu64 "), read with %s",
                    path, o->samples, run->data.shape.steps, kind, o->lanes, o->window, o->run,
                    run->data.shape.engine);
    }
}

static void print_quality(const struct run *run)
{
    double ratio;
    if (run->data.shape.order.kind != ORDER_SHUFFLE ||
        loader_quality(run->data.loader, &ratio, NULL))
        return;
    run_log(run, "data: batches are mixed %.0f %% as well as with a full shuffle%s",
            ratio > 1 ? 100 : ratio * 100,
            ratio < GOOD_QUALITY_MIN
                ? "; `millrace read DATASET --quality` shows what would mix them better"
                : "");
}

static void format_exchange(const struct run *run, char *text, size_t bytes)
{
    if (run_uses_local_sgd(run))
        snprintf(text, bytes, "weights averaged every %" PRIu64 " updates, gradients not exchanged",
                 run->config->parallel.local_sgd.steps);
    else
        snprintf(text, bytes, "gradients exchanged %s",
                 run->data.batching.interleaved ? "after each micro-batch" : "once per step");
}

static void print_ranks(const struct run *run)
{
    char exchange[80], dependence[REDUCTION_DEPENDENCE_BYTES];
    reduction_describe_rank_dependence(&run->update.reduction->options, dependence,
                                       sizeof dependence);
    if (dependence[0])
        run_log(run, "%s: the bits of the result depend on the number of ranks", dependence);
    if (run->data.batching.ranks == 1)
        return;
    format_exchange(run, exchange, sizeof exchange);
    run_log(run, "ranks: %u, %s: state in %u shard%s, %s", run->data.batching.ranks,
            strategy_at(run->config->parallel.strategy)->name, run->compute.shards_count,
            run->compute.shards_count == 1 ? "" : "s", exchange);
    if (run->ranks.cpus > 0 && run->ranks.cpus < thread_pool_cpu_count() &&
        (run->config->threads == 0 || run->config->data.workers == 0))
        run_log(
            run,
            "ranks: this machine's processors are divided among its ranks: rank 0 uses %u of %u",
            run->ranks.cpus, thread_pool_cpu_count());
}

static void print_memory(const struct run *run)
{
    const struct train_config *config = run->config;
    struct device_mem_info memory;
    run->compute.device->ops->mem_info(run->compute.device, &memory);
    uint64_t used = memory.used_bytes[MEM_DEVICE], pinned = memory.used_bytes[MEM_PINNED];
    bool is_host = run->compute.device->ops->is_host;
    /* host memory; staging uses huge pages */
    uint64_t all = used + pinned + memory.used_bytes[MEM_HUGE];
    char used_size[STR_SIZE_BYTES], pinned_size[STR_SIZE_BYTES], more_size[STR_SIZE_BYTES];
    char evaluating[80] = "", host[80] = "", buffers[48] = "";
    uint32_t buffers_count = reduction_buffers_count(&run->update.reduction->options);
    if (!is_host)
        snprintf(host, sizeof host, " on the device, %s pinned on the host",
                 str_format_size(pinned, pinned_size));
    if (config->data.val[0])
        snprintf(evaluating, sizeof evaluating, "; up to %s more during evaluation",
                 str_format_size(config->data.memory_bytes, more_size));
    if (buffers_count > 0) /* 0: no buffer holds all gradients */
        snprintf(buffers, sizeof buffers, " (%u buffer%s)", buffers_count,
                 buffers_count == 1 ? "" : "s");
    run_log(run, "memory: %s%s%s%s", str_format_size(is_host ? all : used, used_size),
            run->data.batching.ranks > 1 ? " per rank" : "", host, evaluating);
    run_log(run,
            "memory: for weights, gradients%s, moments, activations, batches, checkpoint staging",
            buffers);
    if (is_host && (config->model.offload > 0 || config->parallel.offload.optimizer ||
                    config->parallel.offload.params))
        run_log(run, "memory: model.offload and parallel.offload save nothing on the cpu, because "
                     "its memory is the host's");
}

static void warn_long_warmup(const struct run *run)
{
    const struct schedule *schedule = &run->update.schedule;
    uint64_t units = (run->steps + schedule->unit_steps - 1) / schedule->unit_steps;
    const char *unit = run->config->schedule.by == CONFIG_BY_EPOCH ? "epochs" : "steps";
    if (schedule->warmup == 0 || schedule->warmup < units || run->ranks.comm->rank != 0)
        return;
    log_line(run->options->log, LOG_WARN,
             "schedule.warmup is %" PRIu64 " %s, and the run has %" PRIu64
             ": the learning rate only rises, to %g of %g; lower schedule.warmup",
             schedule->warmup, unit, units, schedule_lr(schedule, run->steps - 1), schedule->lr);
}

void startup_messages_print(const struct run *run)
{
    uint64_t parameters = 0, frozen_count = 0;
    for (uint64_t i = 0; i < run->compute.params->count; i++) {
        parameters += run->compute.params->list[i].count;
        frozen_count +=
            run->compute.params->list[i].frozen ? run->compute.params->list[i].count : 0;
    }
    print_data(run);
    print_quality(run);
    run_log(run,
            "model: %s, %.2f M parameters in %" PRIu64 " groups, %" PRIu64
            " micro-batches of %" PRIu64 " per step",
            model_type_name((enum model_type)run->config->model.type), (double)parameters / 1e6,
            run->compute.params->groups_count, batching_micros(&run->data.batching),
            run->data.batching.micro);
    if (frozen_count > 0)
        run_log(
            run,
            "model: %.2f M of the parameters are frozen: no gradients, moments or updates for them",
            (double)frozen_count / 1e6);
    const char *id = str_text(&run->saving.numerics_id); /* begins with the device's name */
    const char *rank = "rank 0: ";                       /* prefix if it lists all ranks */
    id += strncmp(id, rank, strlen(rank)) == 0 ? strlen(rank) : 0;
    run_log(run, "device %.*s; computes in %s", (int)strcspn(id, ";"), id,
            dtype_name(run->compute.ops->compute));
    print_ranks(run);
    print_memory(run);
    warn_long_warmup(run);
    const char *limit = run->config->run.steps > 0 ? "run.steps" : "run.epochs";
    if (run->step == run->steps)
        run_log(run, "this run has completed all its %" PRIu64 " steps: a larger %s continues it",
                run->steps, limit);
    else if (run->step > run->steps)
        run_log(run,
                "this run has completed %" PRIu64 " steps, more than its total of %" PRIu64
                ": a larger %s continues it",
                run->step, run->steps, limit);
}
