/*
 * optimizer — see optimizer.h.
 */
#include "trainer/optimizer.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *optimizer_type_name(enum optimizer_type type)
{
    return type == OPTIMIZER_SGD ? "sgd" : "adamw";
}

unsigned optimizer_moments_count(const struct optimizer_options *options)
{
    if (options->type == OPTIMIZER_SGD)
        return options->momentum > 0;
    return 2;
}

const char *optimizer_moment_name(enum optimizer_type type, unsigned moment)
{
    if (type == OPTIMIZER_SGD)
        return "momentum_buffer";
    return moment == 0 ? "exp_avg" : "exp_avg_sq";
}

static uint64_t moment_bytes(const struct optimizer *optimizer)
{
    return optimizer->params->trained_elements * ops_master_bytes(optimizer->ops);
}

/* A kernel that touches each byte once reads and writes pinned memory at the link's speed, both ways at a time: wide accesses of
 * neighbours, and far more of them under way than the link can hold. Copies through staging would bring no more. */
static enum mem_kind moments_kind(const struct optimizer *optimizer)
{
    return optimizer->options.offloaded ? MEM_PINNED : MEM_DEVICE;
}

static void *at(const struct optimizer *optimizer, const void *arena, uint64_t element)
{
    return (char *)(uintptr_t)arena + element * ops_master_bytes(optimizer->ops);
}

static void *moment_at(const struct optimizer *optimizer, unsigned moment, uint64_t element)
{
    void *arena = optimizer->moments[moment];
    return arena ? at(optimizer, arena, element) : NULL;
}

static uint64_t decays_count(const struct params *params)
{
    return (params->trained_elements + OPS_DECAY_ELEMENTS - 1) / OPS_DECAY_ELEMENTS;
}

/* Parameters that share one decision are neighbours of a kind: they agree. */
static int fill_decays(struct optimizer *optimizer, struct err *err)
{
    static_assert(PARAMS_ALIGN % OPS_DECAY_ELEMENTS == 0, "parameters of different kinds share no decision");
    const struct params *params = optimizer->params;
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
    int status = device_upload(optimizer->ops->device, optimizer->decays, decays, decays_count(params), err);
    free(decays);
    return status;
}

static uint64_t rows_count(const struct params *params)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < params->count; i++)
        count += params->list[i].frozen ? 0 : params->list[i].shape[0];
    return count;
}

uint64_t optimizer_scratch_bytes(const struct params *params)
{
    return rows_count(params) * sizeof(double) + decays_count(params);
}

int optimizer_init(struct optimizer *optimizer, const struct optimizer_options *options, struct ops *ops,
                   const struct params *params, struct err *err)
{
    *optimizer = (struct optimizer){
        .options = *options, .ops = ops, .params = params, .row_sums_count = rows_count(params)};
    struct device *device = ops->device;
    enum mem_kind kind = moments_kind(optimizer);
    int status = 0;
    for (unsigned i = 0; i < optimizer_moments_count(options) && !status; i++)
        status = device->ops->mem_alloc(device, kind, moment_bytes(optimizer), &optimizer->moments[i], err);
    if (!status)
        status = device->ops->mem_alloc(device, MEM_DEVICE, optimizer->row_sums_count * sizeof(double),
                                        (void **)&optimizer->row_sums, err);
    if (!status)
        status = device->ops->mem_alloc(device, MEM_DEVICE, decays_count(params), (void **)&optimizer->decays,
                                        err);
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
    device->ops->mem_free(device, MEM_DEVICE, optimizer->decays, decays_count(optimizer->params));
    device->ops->mem_free(device, MEM_DEVICE, optimizer->row_sums,
                          optimizer->row_sums_count * sizeof(double));
    for (unsigned i = 0; i < OPTIMIZER_MOMENTS_MAX; i++)
        if (optimizer->moments[i])
            device->ops->mem_free(device, moments_kind(optimizer), optimizer->moments[i],
                                  moment_bytes(optimizer));
    *optimizer = (struct optimizer){0};
}

void optimizer_sum_squares(struct optimizer *optimizer, const void *gradients, int64_t *words)
{
    struct ops *ops = optimizer->ops;
    double *sums = optimizer->row_sums;
    for (uint64_t i = 0; i < optimizer->params->count; i++) {
        const struct param *param = &optimizer->params->list[i];
        uint64_t rows = param->shape[0], cols = param->count / rows;
        if (param->frozen)
            continue;
        ops->table->row_sumsq(ops, sums, at(optimizer, gradients, param->trained_offset), rows, cols);
        sums += rows;
    }
    ops->table->exact_add(ops, words, optimizer->row_sums, optimizer->row_sums_count);
}

struct decision_factors optimizer_factors(const struct optimizer *optimizer, uint64_t updates, double lr)
{
    const struct optimizer_options *o = &optimizer->options;
    double t = (double)(updates + 1);
    if (o->type == OPTIMIZER_SGD)
        return (struct decision_factors){.lr = lr, .correction1 = 1, .correction2 = 1};
    return (struct decision_factors){
        .lr = lr, .correction1 = 1 / (1 - pow(o->beta1, t)), .correction2 = 1 / (1 - pow(o->beta2, t))};
}

/* The padding between parameters is zero, and an update leaves it so. */
static void update_span(struct optimizer *optimizer, const struct params_span *span, void *weights,
                        void *compute, const void *gradients, const struct update_scalars *scalars)
{
    const struct optimizer_options *o = &optimizer->options;
    const struct adamw_options adamw = {o->beta1, o->beta2, o->epsilon, o->weight_decay};
    const struct sgd_options sgd = {o->momentum, o->weight_decay, o->nesterov};
    struct ops *ops = optimizer->ops;
    const struct update_arrays arrays = {
        .params = at(optimizer, weights, span->offset),
        .compute = compute ? (char *)compute + span->offset * ops_compute_bytes(ops) : NULL,
        .moment1 = moment_at(optimizer, 0, span->trained_offset),
        .moment2 = moment_at(optimizer, 1, span->trained_offset),
        .gradients = at(optimizer, gradients, span->trained_offset),
        .decays = optimizer->decays + span->trained_offset / OPS_DECAY_ELEMENTS,
        .count = span->elements,
    };
    if (o->type == OPTIMIZER_SGD)
        ops->table->sgd(ops, &arrays, &sgd, scalars);
    else
        ops->table->adamw(ops, &arrays, &adamw, scalars);
}

void optimizer_update_group(struct optimizer *optimizer, uint64_t group, void *weights, void *compute,
                            const void *gradients, const struct update_scalars *scalars)
{
    struct params_span span;
    uint64_t next = 0;
    while (params_next_span(optimizer->params, group, &next, &span))
        update_span(optimizer, &span, weights, compute, gradients, scalars);
}
