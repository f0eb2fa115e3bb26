/*
 * run_saving — see run_saving.h.
 */
#include "trainer/run/parts/run_saving.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PREFIX_BYTES = 32, NAME_BYTES = PARAMS_NAME_BYTES_MAX + PREFIX_BYTES };

void run_saving_close(struct run_saving *saving)
{
    run_tensors_deinit(&saving->tensors);
    str_deinit(&saving->state_json);
    str_deinit(&saving->numerics_id);
}

void *run_tensors_row(const struct run_compute *compute, const struct optimizer *optimizer,
                      const struct param *param, uint64_t row, unsigned kind)
{
    const struct partition *partition = &compute->partition;
    uint64_t group = param->group, element = row * param_row_elements(param);
    size_t element_bytes = ops_master_bytes(compute->ops);
    if (kind == 0) {
        element +=
            param->offset - partition_shard(partition, group, partition->options.rank).offset;
        return (char *)weights_shard(&compute->weights, group) + element * element_bytes;
    }
    element += param->trained_offset -
               partition_trained_shard(partition, group, partition->options.rank).offset +
               partition->trained_shards.offsets[group];
    return (char *)optimizer->moments[kind - 1] + element * element_bytes;
}

static void add_box(struct run_tensors *tensors, const struct run_compute *compute,
                    const struct optimizer *optimizer, uint32_t rank, const struct span *span,
                    const struct param *param, unsigned kind)
{
    const struct partition *partition = &compute->partition;
    struct row_range rows = span_rows(span, param);
    if (rows.count == 0 || (kind > 0 && param->frozen))
        return;
    char *name = tensors->names + tensors->count * NAME_BYTES;
    snprintf(name, NAME_BYTES, "%s%s%s%s", kind ? CKPT_OPTIMIZER_PREFIX : "",
             kind ? optimizer_moment_name(optimizer->options.rule, kind - 1) : "", kind ? "." : "",
             param->name);
    struct ckpt_tensor *tensor = &tensors->list[tensors->count++];
    *tensor = (struct ckpt_tensor){
        .name = name,
        .dtype = compute->ops->master,
        .rank = param->rank,
        .replicated = partition_is_whole(partition, param->group),
        .group = param->group,
        .data = rank == partition->options.rank
                    ? run_tensors_row(compute, optimizer, param, rows.first, kind)
                    : name};
    for (uint32_t d = 0; d < param->rank; d++)
        tensor->shape[d] = tensor->extent[d] = param->shape[d];
    tensor->start[0] = rows.first;
    tensor->extent[0] = rows.count;
}

int run_tensors_describe(const struct run_compute *compute, const struct optimizer *optimizer,
                         uint32_t rank, bool is_load, struct run_tensors *ret_tensors,
                         struct err *err)
{
    const struct partition *partition = &compute->partition;
    const struct params *params = compute->params;
    unsigned kinds = 1 + optimizer_moments_count(&optimizer->options);
    uint64_t count_max = kinds * params->count;
    *ret_tensors = (struct run_tensors){.list = calloc(count_max, sizeof *ret_tensors->list),
                                        .names = calloc(count_max, NAME_BYTES)};
    if (!ret_tensors->list || !ret_tensors->names)
        return err_set(err, -ENOMEM, "out of memory for %" PRIu64 " tensor names", count_max);
    for (uint64_t i = 0; i < params->count; i++) {
        const struct param *param = &params->list[i];
        /* each rank that holds a replicated shard saves the part it sums */
        bool is_shard = is_load || partition_is_whole(partition, param->group);
        struct span span = is_shard ? partition_shard(partition, param->group, rank)
                                    : partition_part(partition, param->group, rank);
        for (unsigned kind = 0; kind < kinds; kind++)
            add_box(ret_tensors, compute, optimizer, rank, &span, param, kind);
    }
    return 0;
}

void run_tensors_deinit(struct run_tensors *tensors)
{
    free(tensors->list);
    free(tensors->names);
    *tensors = (struct run_tensors){0};
}
