/*
 * memory_need — see memory_need.h.
 */
#include "trainer/memory_need.h"

#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

struct memory_need memory_need_of(const struct model *model, const struct model_stage *stage,
                                  const struct weights_options *weights,
                                  const struct reduction_options *reduction,
                                  const struct optimizer_options *optimizer, const struct feed_options *feed)
{
    struct ops *ops = weights->ops;
    const struct weights_need held = weights_need_of(weights, model);
    struct memory_need need = {.weights = held.device_bytes,
                               .pinned = held.pinned_bytes,
                               .ranks = reduction ? reduction->batching.ranks : 1,
                               .activations = model_activation_bytes(model, stage)};
    need.batches = feed_device_bytes(feed, ops) + model_rows(model) * (sizeof(double) + 1);
    if (reduction) {
        const struct partition *partition = reduction->partition;
        const struct reduction_need sums = reduction_need_of(reduction);
        uint64_t moments =
            optimizer_moments_count(optimizer) * partition->trained_shards.elements * ops_master_bytes(ops);
        need.gradients = sums.device_bytes;
        need.gradients_count = sums.buffers_count;
        *(optimizer->offloaded ? &need.pinned : &need.moments) += moments;
        need.offloadable = need.moments > 0 ? need.moments + held.offloadable_bytes : 0;
        need.pinned += model_offload_bytes(model, stage) + sums.pinned_bytes;
        need.batches += optimizer_scratch_bytes(partition);
    }
    need.total = need.weights + need.gradients + need.moments + need.activations + need.batches +
                 MEMORY_NEED_SPARE_BYTES;
    return need;
}

/* What the activations of the same model would take with other settings; UINT64_MAX where there is no such model. */
static uint64_t activations_with(const struct model_config *config, const struct model_stage *stage,
                                 struct ops *ops, uint64_t items)
{
    struct model *model;
    if (items == 0 || model_open(config, ops, items, &model, NULL))
        return UINT64_MAX;
    uint64_t bytes = model_activation_bytes(model, stage);
    model_close(model);
    return bytes;
}

/* Adds "SETTING saves X" where it saves anything. */
static void add_saving(char *text, size_t bytes, const char *setting, uint64_t now, uint64_t then)
{
    char size[STR_SIZE_BYTES];
    size_t length = 0;
    while (text[length])
        length++;
    if (then < now)
        snprintf(text + length, bytes - length, "%s%s saves %s", length ? ", " : "", setting,
                 str_format_size(now - then, size));
}

static void advise(const struct memory_need *need, const struct model *model, const struct model_stage *stage,
                   struct ops *ops, uint64_t items, struct err *err)
{
    const struct model_config *config = model_config_of(model);
    struct model_config recomputed = *config, offloaded = *config;
    char text[ERR_TEXT_BYTES_MAX] = "", half[64];
    recomputed.recompute_every = 1;
    offloaded.offload_every = 1;
    snprintf(half, sizeof half, "batch.micro: %" PRIu64, items / 2);
    add_saving(text, sizeof text, half, need->activations, activations_with(config, stage, ops, items / 2));
    if (need->gradients > 0) {
        add_saving(text, sizeof text, "model.recompute: 1", need->activations,
                   activations_with(&recomputed, stage, ops, items));
        add_saving(text, sizeof text, "model.offload: 1", need->activations,
                   activations_with(&offloaded, stage, ops, items));
    }
    if (need->offloadable > 0)
        add_saving(text, sizeof text, "parallel.offload.optimizer: true", need->offloadable, 0);
    if (need->gradients_count > 1 && need->ranks == 1) /* each rank needs a micro-batch */
        add_saving(text, sizeof text, "batch.global equal to batch.micro", need->gradients,
                   need->gradients / need->gradients_count);
    err_advise(err, "%s", text[0] ? text : "make the model smaller");
}

int memory_need_check(const struct memory_need *need, const struct model *model,
                      const struct model_stage *stage, struct ops *ops, uint64_t items, struct err *err)
{
    struct device_mem_info info;
    ops->device->ops->mem_info(ops->device, &info);
    if (ops->device->ops->is_host || info.total_bytes == 0 || need->total <= info.free_bytes)
        return 0;
    char weights[STR_SIZE_BYTES], gradients[STR_SIZE_BYTES], moments[STR_SIZE_BYTES],
        activations[STR_SIZE_BYTES], batches[STR_SIZE_BYTES], total[STR_SIZE_BYTES],
        free_size[STR_SIZE_BYTES], pinned[STR_SIZE_BYTES], offloaded[48] = "";
    if (need->pinned > 0)
        snprintf(offloaded, sizeof offloaded, "; in the host %s pinned",
                 str_format_size(need->pinned, pinned));
    err_set(err, -ENOMEM, "the device's memory is too small for this run");
    err_expected(
        err, "%s: weights %s, gradients %s, moments %s, activations of a micro-batch %s, batches %s%s",
        str_format_size(need->total, total), str_format_size(need->weights, weights),
        str_format_size(need->gradients, gradients), str_format_size(need->moments, moments),
        str_format_size(need->activations, activations), str_format_size(need->batches, batches), offloaded);
    err_found(err, "%s free", str_format_size(info.free_bytes, free_size));
    if (err)
        advise(need, model, stage, ops, items, err);
    return -ENOMEM;
}
