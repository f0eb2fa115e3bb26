/*
 * optimizer — see optimizer.h.
 */
#include "trainer/optimizer.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static uint64_t moment_bytes(const struct optimizer *optimizer)
{
    return optimizer->params->elements * ops_master_bytes(optimizer->ops);
}

static void *at(const struct optimizer *optimizer, const void *arena, uint64_t element)
{
    return (char *)(uintptr_t)arena + element * ops_master_bytes(optimizer->ops);
}

int optimizer_init(struct optimizer *optimizer, const struct optimizer_options *options, struct ops *ops,
                   const struct params *params, struct err *err)
{
    *optimizer = (struct optimizer){.options = *options, .ops = ops, .params = params};
    for (uint64_t i = 0; i < params->count; i++)
        if (params->list[i].shape[0] > optimizer->row_sums_count)
            optimizer->row_sums_count = params->list[i].shape[0];
    const struct device_ops *device = ops->device->ops;
    int status =
        device->mem_alloc(ops->device, MEM_DEVICE, moment_bytes(optimizer), &optimizer->moment1, err);
    if (!status)
        status =
            device->mem_alloc(ops->device, MEM_DEVICE, moment_bytes(optimizer), &optimizer->moment2, err);
    if (!status)
        status = device->mem_alloc(ops->device, MEM_PINNED, optimizer->row_sums_count * sizeof(double),
                                   (void **)&optimizer->row_sums, err);
    if (status)
        optimizer_deinit(optimizer);
    return status;
}

void optimizer_deinit(struct optimizer *optimizer)
{
    if (!optimizer->ops)
        return;
    struct device *device = optimizer->ops->device;
    device->ops->mem_free(device, MEM_PINNED, optimizer->row_sums,
                          optimizer->row_sums_count * sizeof(double));
    device->ops->mem_free(device, MEM_DEVICE, optimizer->moment2, moment_bytes(optimizer));
    device->ops->mem_free(device, MEM_DEVICE, optimizer->moment1, moment_bytes(optimizer));
    *optimizer = (struct optimizer){0};
}

int optimizer_sum_squares(struct optimizer *optimizer, const void *gradients, struct exact_sum *sum,
                          struct err *err)
{
    for (uint64_t i = 0; i < optimizer->params->count; i++) {
        const struct param *param = &optimizer->params->list[i];
        uint64_t rows = param->shape[0], cols = param->count / rows;
        optimizer->ops->table->row_sumsq(optimizer->ops, optimizer->row_sums,
                                         at(optimizer, gradients, param->offset), rows, cols);
        int status = optimizer->ops->table->sync(optimizer->ops, err);
        if (status)
            return status;
        for (uint64_t row = 0; row < rows; row++)
            exact_sum_add(sum, optimizer->row_sums[row]);
    }
    return 0;
}

double optimizer_gradient_scale(const struct optimizer *optimizer, double squares, double valid_count,
                                double *ret_norm)
{
    double norm = sqrt(squares) / valid_count, clip = optimizer->options.clip_norm;
    *ret_norm = norm;
    double factor = clip > 0 ? clip / (norm + 1e-6) : 1;
    return (factor < 1 ? factor : 1) / valid_count;
}

void optimizer_begin_update(struct optimizer *optimizer)
{
    optimizer->updates++;
}

void optimizer_update_group(struct optimizer *optimizer, uint64_t group, void *weights, const void *gradients,
                            double lr, double gradient_scale)
{
    const struct optimizer_options *o = &optimizer->options;
    double t = (double)optimizer->updates;
    struct adamw_scalars scalars = {
        .lr = lr,
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .epsilon = o->epsilon,
        .correction1 = 1 / (1 - pow(o->beta1, t)),
        .correction2 = 1 / (1 - pow(o->beta2, t)),
        .gradient_scale = gradient_scale,
    };
    const struct param_group *g = &optimizer->params->groups[group];
    for (uint64_t i = g->first; i < g->first + g->count; i++) {
        const struct param *param = &optimizer->params->list[i];
        scalars.decay = param->decay ? o->weight_decay : 0;
        optimizer->ops->table->adamw(optimizer->ops, at(optimizer, weights, param->offset), NULL,
                                     at(optimizer, optimizer->moment1, param->offset),
                                     at(optimizer, optimizer->moment2, param->offset),
                                     at(optimizer, gradients, param->offset), param->count, &scalars);
    }
}
