/*
 * run_saver — a run as its checkpoints see it: whose they are, what the bits depend on, and which tensors. See run.h.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "trainer/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The checkpoint's view of a parameter and, where it is trained, its moments: whole, replicated, changed by its group's update. */
static int describe_tensors(struct run *run, struct err *err)
{
    enum { PREFIX_BYTES = 32, NAME_BYTES = PARAMS_NAME_BYTES_MAX + PREFIX_BYTES };
    const struct optimizer *optimizer = &run->optimizer;
    unsigned kinds = 1 + optimizer_moments_count(&optimizer->options);
    char prefix[1 + OPTIMIZER_MOMENTS_MAX][PREFIX_BYTES] = {""},
                    *arena[1 + OPTIMIZER_MOMENTS_MAX] = {run->weights};
    for (unsigned kind = 1; kind < kinds; kind++) {
        snprintf(prefix[kind], PREFIX_BYTES, CKPT_OPTIMIZER_PREFIX "%s.",
                 optimizer_moment_name(optimizer->options.type, kind - 1));
        arena[kind] = optimizer->moments[kind - 1];
    }
    uint64_t count_max = kinds * run->params->count;
    run->tensors = calloc(count_max, sizeof run->tensors[0]);
    run->tensor_names = calloc(count_max, NAME_BYTES);
    if (!run->tensors || !run->tensor_names)
        return err_set(err, -ENOMEM, "out of memory for %" PRIu64 " tensor names", count_max);
    for (uint64_t i = 0; i < count_max; i++) {
        const struct param *param = &run->params->list[i / kinds];
        uint64_t kind = i % kinds, offset = kind == 0 ? param->offset : param->trained_offset;
        if (kind > 0 && param->frozen)
            continue;
        char *name = run->tensor_names + run->tensors_count * NAME_BYTES;
        snprintf(name, NAME_BYTES, "%s%s", prefix[kind], param->name);
        struct ckpt_tensor *tensor = &run->tensors[run->tensors_count++];
        *tensor = (struct ckpt_tensor){.name = name,
                                       .dtype = run->ops->master,
                                       .rank = param->rank,
                                       .replicated = true,
                                       .group = param->group,
                                       .data = arena[kind] + offset * ops_master_bytes(run->ops)};
        for (uint32_t d = 0; d < param->rank; d++)
            tensor->shape[d] = tensor->extent[d] = param->shape[d];
    }
    return 0;
}

/* A GPU makes updates faster than a disk takes a state: with room for what is not written yet, the run goes on meanwhile. */
static uint64_t staging_bytes(const struct run *run)
{
    enum {
        STAGING_BYTES = 64 << 20,
        STAGING_GPU_BYTES = 1 << 30 /* the saver takes no more than it can use */
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

/* The first rank's choice. */
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

static int name_numerics(struct run *run, struct err *err)
{
    run->ops->table->numerics_id(run->ops, &run->numerics_id);
    if (run->shape.pixels_version > 0)
        str_add_format(&run->numerics_id, "; pixels %u by %s", run->shape.pixels_version,
                       run->shape.pixels_libraries);
    str_add_format(&run->numerics_id, "; micro-batch %" PRIu64, run->batching.micro);
    int status = str_status(&run->numerics_id);
    return status ? err_set(err, status, "out of memory for the numerics' name") : 0;
}

int run_open_saver(struct run *run, struct err *err)
{
    int named = name_numerics(run, err), status = named ? named : describe_tensors(run, err);
    status = run_agree(run, status, "describing the state", err);
    if (!status)
        status = name_run(run, err);
    if (status)
        return status;
    struct ckpt_saver_options options = {
        .folder = run->folder,
        .io = run->io,
        .comm = run->comm,
        .per_node = !run->config->checkpoint.shared,
        .device = run->device,
        .updates = run->ops->stream,
        .groups_count = (uint32_t)run->params->groups_count,
        .staging_bytes = staging_bytes(run),
        .keep = what_to_keep(run->config),
        .lock.kind = (enum io_lock_kind)run->config->checkpoint.owner,
        .run_id = run->run_id,
        .numerics_id = str_text(&run->numerics_id),
        .log = run->options->log,
        .trace = run->options->trace,
    };
    return ckpt_saver_open(&options, run->tensors, run->tensors_count, &run->saver, err);
}
