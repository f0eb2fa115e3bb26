/*
 * run_saver — a run as seen by its checkpoints: the run's id, its numerics, and its tensors. See
 * run.h.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "trainer/run/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Rows of a parameter and of its moments, which have the same layout. */
struct boxes {
    const struct run *run;
    uint32_t rank; /* the owner, in the partition */
    bool loads;
    struct ckpt_tensor *list;
    char *names;
    uint64_t count;
};

enum { PREFIX_BYTES = 32, NAME_BYTES = PARAMS_NAME_BYTES_MAX + PREFIX_BYTES };

void *run_row_place(const struct run *run, const struct param *param, uint64_t row, unsigned kind)
{
    const struct partition *partition = &run->partition;
    uint64_t group = param->group, element = row * param_row_elements(param);
    size_t element_bytes = ops_master_bytes(run->ops);
    if (kind == 0) {
        element +=
            param->offset - partition_shard(partition, group, partition->options.rank).offset;
        return (char *)weights_shard(&run->weights, group) + element * element_bytes;
    }
    element += param->trained_offset -
               partition_trained_shard(partition, group, partition->options.rank).offset +
               partition->trained_shards.offsets[group];
    return (char *)run->optimizer.moments[kind - 1] + element * element_bytes;
}

static void add_box(struct boxes *boxes, const struct param *param, unsigned kind)
{
    const struct run *run = boxes->run;
    const struct partition *partition = &run->partition;
    bool is_whole = partition_is_whole(partition, param->group);
    /* for a shard held by several ranks, each saves the part it sums */
    struct span span = boxes->loads || is_whole
                           ? partition_shard(partition, param->group, boxes->rank)
                           : partition_part(partition, param->group, boxes->rank);
    struct row_range rows = span_rows(&span, param);
    if (rows.count == 0 || (kind > 0 && param->frozen))
        return;
    char *name = boxes->names + boxes->count * NAME_BYTES;
    snprintf(name, NAME_BYTES, "%s%s%s%s", kind ? CKPT_OPTIMIZER_PREFIX : "",
             kind ? optimizer_moment_name(run->optimizer.options.rule, kind - 1) : "",
             kind ? "." : "", param->name);
    struct ckpt_tensor *tensor = &boxes->list[boxes->count++];
    *tensor = (struct ckpt_tensor){.name = name,
                                   .dtype = run->ops->master,
                                   .rank = param->rank,
                                   .replicated = is_whole,
                                   .group = param->group,
                                   .data = boxes->rank == partition->options.rank
                                               ? run_row_place(run, param, rows.first, kind)
                                               : name};
    for (uint32_t d = 0; d < param->rank; d++)
        tensor->shape[d] = tensor->extent[d] = param->shape[d];
    tensor->start[0] = rows.first;
    tensor->extent[0] = rows.count;
}

static int describe(const struct run *run, uint32_t rank, bool loads,
                    struct ckpt_tensor **ret_tensors, char **ret_names, uint64_t *ret_count,
                    struct err *err)
{
    unsigned kinds = 1 + optimizer_moments_count(&run->optimizer.options);
    uint64_t count_max = kinds * run->params->count;
    struct boxes boxes = {.run = run,
                          .rank = rank,
                          .loads = loads,
                          .list = calloc(count_max, sizeof *boxes.list),
                          .names = calloc(count_max, NAME_BYTES)};
    *ret_tensors = boxes.list;
    *ret_names = boxes.names;
    if (!boxes.list || !boxes.names)
        return err_set(err, -ENOMEM, "out of memory for %" PRIu64 " tensor names", count_max);
    for (uint64_t i = 0; i < run->params->count; i++)
        for (unsigned kind = 0; kind < kinds; kind++)
            add_box(&boxes, &run->params->list[i], kind);
    *ret_count = boxes.count;
    return 0;
}

int run_describe_tensors(const struct run *run, bool loads, struct ckpt_tensor **ret_tensors,
                         char **ret_names, uint64_t *ret_count, struct err *err)
{
    return describe(run, run->partition.options.rank, loads, ret_tensors, ret_names, ret_count,
                    err);
}

/* If every rank holds everything, the partition has one rank. */
int run_describe_tensors_of(const struct run *run, uint32_t rank, struct ckpt_tensor **ret_tensors,
                            char **ret_names, uint64_t *ret_count, struct err *err)
{
    return describe(run, run->partition.options.ranks == 1 ? 0 : rank, false, ret_tensors,
                    ret_names, ret_count, err);
}

/* A GPU updates faster than a disk takes a state; a larger staging buffer lets the run continue
 * meanwhile. */
uint64_t run_staging_bytes(const struct run *run)
{
    enum {
        STAGING_BYTES = 64 << 20,
        STAGING_GPU_BYTES = 1 << 30 /* the saver allocates only what it can use */
    };
    if (run->config->checkpoint.staging_bytes > 0)
        return run->config->checkpoint.staging_bytes;
    return run->device->ops->is_host ? STAGING_BYTES : STAGING_GPU_BYTES;
}

static struct ckpt_keep what_to_keep(const struct train_config *config)
{
    struct ckpt_keep keep = {.last = (uint32_t)config->checkpoint.keep.last,
                             .every = config->checkpoint.keep.every};
    if (config->checkpoint.keep.best.count > 0) {
        keep.best.metric = config_metric_name(config->checkpoint.keep.best.metric);
        keep.best.mode = (enum ckpt_mode)config->checkpoint.keep.best.mode;
        keep.best.count = (uint32_t)config->checkpoint.keep.best.count;
    }
    return keep;
}

/* The first rank chooses the id. */
static int name_run(struct run *run, struct err *err)
{
    uint64_t seed[3] = {clock_wall_ns(), clock_now_ns(), (uint64_t)getpid()};
    int64_t id = run->comm->rank == 0 ? (int64_t)hash_64(seed, sizeof seed) : 0;
    struct comm_options options = run_comm_options(run, "the name of the run");
    struct comm_work work;
    int status = run->comm->ops->all_reduce_i64(run->comm, &id, 1, COMM_OR, &options, &work, err);
    if (!status)
        status = comm_wait(run->comm, &work, err);
    snprintf(run->run_id, sizeof run->run_id, "%016" PRIx64, (uint64_t)id);
    return status;
}

int run_open_saver(struct run *run, struct err *err)
{
    int status = run_name_numerics(run, err);
    if (!status)
        status = run_describe_tensors(run, false, &run->tensors, &run->tensor_names,
                                      &run->tensors_count, err);
    status = run_agree(run, status, "describing the state", err);
    if (!status)
        status = run_compare_numerics(run, err);
    if (!status)
        status = name_run(run, err);
    if (status)
        return status;
    struct ckpt_saver_options options = {
        .folder = run->folder,
        .io = run->io,
        .comm = run->plain_comm,
        .per_node = !run->config->checkpoint.shared,
        .layout = (enum ckpt_layout)run->config->checkpoint.layout,
        .device = run->device,
        .updates = run->ops->stream,
        .groups_count = (uint32_t)run->params->groups_count,
        .staging_bytes = run_staging_bytes(run),
        .keep = what_to_keep(run->config),
        .lock.kind = (enum io_lock_kind)run->config->checkpoint.owner,
        .run_id = run->run_id,
        .numerics_id = str_text(&run->numerics_id),
        .log = run->options->log,
        .trace = run->options->trace,
    };
    return ckpt_saver_open(&options, run->tensors, run->tensors_count, &run->saver, err);
}
