/*
 * optimizer — see optimizer.h.
 */
#include "trainer/optim/optimizer.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct rule_names {
    const char *name, *moments[OPTIMIZER_MOMENTS_MAX];
} rule_names[] = {
#define ROW(name, NAME, moments, first, second) [UPDATE_##NAME] = {#name, {first, second}},
    UPDATE_RULES(ROW)
#undef ROW
};

const char *optimizer_rule_name(enum update_rule rule)
{
    return rule_names[rule].name;
}

unsigned optimizer_moments_count(const struct optimizer_options *options)
{
    return update_moment_count(options->rule, &options->update);
}

const char *optimizer_moment_name(enum update_rule rule, unsigned moment)
{
    return rule_names[rule].moments[moment];
}

static uint64_t moment_bytes(const struct optimizer *optimizer)
{
    return optimizer->partition->trained_shards.elements * ops_master_bytes(optimizer->ops);
}

/* A kernel that accesses each byte once reaches the link's full-duplex speed on pinned memory, so
 * staging copies would not be faster. */
static unsigned moments_kind(const struct optimizer *optimizer)
{
    return mem_for(optimizer->options.offloads_moments ? MEM_PINNED : MEM_DEVICE,
                   MEM_FOR_OPTIMIZER);
}

static void *element_at(const struct optimizer *optimizer, const void *arena, uint64_t element)
{
    return (char *)(uintptr_t)arena + element * ops_master_bytes(optimizer->ops);
}

static void *moment_at(const struct optimizer *optimizer, unsigned moment, uint64_t element)
{
    void *arena = optimizer->moments[moment];
    return arena ? element_at(optimizer, arena, element) : NULL;
}

static uint64_t decays_count(const struct params *params)
{
    return (params->trained_elements + OPS_DECAY_ELEMENTS - 1) / OPS_DECAY_ELEMENTS;
}

/* Only neighbors (params.h) share an entry, and they have the same decay. */
static int fill_decays(struct optimizer *optimizer, struct err *err)
{
    static_assert(PARAMS_ALIGN % OPS_DECAY_ELEMENTS == 0,
                  "parameters with different decay share no flag");
    const struct params *params = optimizer->partition->params;
    uint8_t *decays = calloc(decays_count(params), 1);
    if (!decays)
        return err_set(err, -ENOMEM, "out of memory for the optimizer");
    for (uint64_t i = 0; i < params->count; i++) {
        const struct param *param = &params->list[i];
        uint64_t offset = param->trained_offset, first = offset / OPS_DECAY_ELEMENTS,
                 end = (offset + param->count + OPS_DECAY_ELEMENTS - 1) / OPS_DECAY_ELEMENTS;
        if (param->frozen)
            continue;
        memset(decays + first, param->decay, end - first);
    }
    int status =
        device_upload(optimizer->ops->device, optimizer->decays, decays, decays_count(params), err);
    free(decays);
    return status;
}

static struct row_range own_rows(const struct partition *partition, const struct param *param)
{
    struct span part = partition_part(partition, param->group, partition->options.rank);
    return span_rows(&part, param);
}

static uint64_t rows_count(const struct partition *partition)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < partition->params->count; i++)
        if (!partition->params->list[i].frozen)
            count += own_rows(partition, &partition->params->list[i]).count;
    return count;
}

static uint64_t row_sums_bytes(const struct partition *partition)
{
    uint64_t count = rows_count(partition);
    return (count > 0 ? count : 1) * sizeof(double);
}

int optimizer_init(struct optimizer *optimizer, const struct optimizer_options *options,
                   struct ops *ops, const struct partition *partition, struct err *err)
{
    *optimizer = (struct optimizer){.options = *options,
                                    .ops = ops,
                                    .partition = partition,
                                    .row_sums_count = rows_count(partition)};
    struct device *device = ops->device;
    unsigned kind = moments_kind(optimizer);
    int status = 0;
    for (unsigned i = 0; i < optimizer_moments_count(options) && !status; i++)
        status = device->ops->mem_alloc(device, kind, moment_bytes(optimizer),
                                        &optimizer->moments[i], err);
    if (!status)
        status = device->ops->mem_alloc(device, MEM_DEVICE, row_sums_bytes(partition),
                                        (void **)&optimizer->row_sums, err);
    if (!status)
        status = device->ops->mem_alloc(device, MEM_DEVICE, decays_count(partition->params),
                                        (void **)&optimizer->decays, err);
    if (!status)
        status = fill_decays(optimizer, err);
    if (status)
        optimizer_deinit(optimizer);
    return status;
}

void optimizer_deinit(struct optimizer *optimizer)
{
    if (!optimizer->ops)
        return;
    struct device *device = optimizer->ops->device;
    device->ops->mem_free(device, MEM_DEVICE, optimizer->decays,
                          decays_count(optimizer->partition->params));
    device->ops->mem_free(device, MEM_DEVICE, optimizer->row_sums,
                          row_sums_bytes(optimizer->partition));
    for (unsigned i = 0; i < OPTIMIZER_MOMENTS_MAX; i++)
        if (optimizer->moments[i])
            device->ops->mem_free(device, moments_kind(optimizer), optimizer->moments[i],
                                  moment_bytes(optimizer));
    *optimizer = (struct optimizer){0};
}

void optimizer_sum_squares(struct optimizer *optimizer,
                           const void *(*part_gradients)(void *context, uint64_t group),
                           void *context, int64_t *words)
{
    struct ops *ops = optimizer->ops;
    const struct partition *partition = optimizer->partition;
    double *sums = optimizer->row_sums;
    for (uint64_t i = 0; i < partition->params->count; i++) {
        const struct param *param = &partition->params->list[i];
        struct row_range rows = own_rows(partition, param);
        uint64_t cols = param_row_elements(param);
        struct span own = partition_trained_part(partition, param->group, partition->options.rank);
        if (rows.count == 0 || param->frozen)
            continue;
        ops->table->row_sumsq(ops, sums,
                              element_at(optimizer, part_gradients(context, param->group),
                                         param->trained_offset + rows.first * cols - own.offset),
                              rows.count, cols);
        sums += rows.count;
    }
    if (optimizer->row_sums_count > 0)
        ops->table->add_to_exact_sum(ops, words, optimizer->row_sums, optimizer->row_sums_count);
}

struct scheduled_scalars optimizer_scheduled_scalars(const struct optimizer *optimizer,
                                                     uint64_t updates, double lr)
{
    const struct update_options *o = &optimizer->options.update;
    double t = (double)(updates + 1);
    return (struct scheduled_scalars){.lr = lr,
                                      .correction1 = 1 / (1 - pow(o->beta1, t)),
                                      .correction2 = 1 / (1 - pow(o->beta2, t))};
}

struct update_range {
    uint64_t weight_offset, trained_offset, elements; /* offsets in this rank's shard */
};

/* Updates keep the padding between parameters zero. */
static void update_range(struct optimizer *optimizer, uint64_t group,
                         const struct update_range *range, void *weights, void *compute,
                         const void *gradients, const struct update_scalars *scalars)
{
    struct ops *ops = optimizer->ops;
    const struct partition *partition = optimizer->partition;
    uint64_t moment = partition->trained_shards.offsets[group] + range->trained_offset;
    struct span shard = partition_trained_shard(partition, group, partition->options.rank);
    const struct update_arrays arrays = {
        .params = element_at(optimizer, weights, range->weight_offset),
        .compute = compute ? (char *)compute + range->weight_offset * ops_compute_bytes(ops) : NULL,
        .moment1 = moment_at(optimizer, 0, moment),
        .moment2 = moment_at(optimizer, 1, moment),
        .gradients = element_at(optimizer, gradients, range->trained_offset),
        .decays = optimizer->decays + (shard.offset + range->trained_offset) / OPS_DECAY_ELEMENTS,
        .count = range->elements,
    };
    const struct optimizer_options *options = &optimizer->options;
    ops->table->update(ops, options->rule, &options->update, &arrays, scalars);
}

void optimizer_update_shard(struct optimizer *optimizer, uint64_t group, void *weights,
                            void *compute, const void *gradients,
                            const struct update_scalars *scalars)
{
    const struct partition *partition = optimizer->partition;
    struct span shard = partition_shard(partition, group, partition->options.rank);
    struct span trained = partition_trained_shard(partition, group, partition->options.rank);
    struct params_span span;
    uint64_t next = 0;
    while (params_next_span(partition->params, group, &next, &span)) {
        uint64_t first = span.offset > shard.offset ? span.offset : shard.offset;
        uint64_t end = span.offset + span.elements, shard_end = shard.offset + shard.elements;
        if (end > shard_end)
            end = shard_end;
        if (first >= end)
            continue;
        const struct update_range range = {
            first - shard.offset, span.trained_offset + (first - span.offset) - trained.offset,
            end - first};
        update_range(optimizer, group, &range, weights, compute, gradients, scalars);
    }
}
