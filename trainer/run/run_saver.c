/*
 * run_saver — opens the saver of a run's checkpoints. See run.h.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "trainer/run/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* Larger for a GPU, which updates the state faster than a disk stores it. */
uint64_t run_staging_bytes(const struct run *run)
{
    enum {
        STAGING_BYTES = 64 << 20,
        STAGING_GPU_BYTES = 1 << 30 /* the saver allocates only what it can use */
    };
    if (run->config->checkpoint.staging_bytes > 0)
        return run->config->checkpoint.staging_bytes;
    return run->compute.device->ops->is_host ? STAGING_BYTES : STAGING_GPU_BYTES;
}

static struct ckpt_keep_rules make_keep_options(const struct train_config *config)
{
    struct ckpt_keep_rules keep = {.last = (uint32_t)config->checkpoint.keep.last,
                                   .every = config->checkpoint.keep.every};
    if (config->checkpoint.keep.best.count > 0) {
        keep.best.metric = config_metric_name(config->checkpoint.keep.best.metric);
        keep.best.mode = (enum ckpt_metric_mode)config->checkpoint.keep.best.mode;
        keep.best.count = (uint32_t)config->checkpoint.keep.best.count;
    }
    return keep;
}

static int create_run_id(struct run *run, struct err *err)
{
    uint64_t seed[3] = {clock_wall_ns(), clock_now_ns(), (uint64_t)getpid()};
    int64_t id = run->ranks.comm->rank == 0 ? (int64_t)hash_64(seed, sizeof seed) : 0;
    int status = run_ranks_reduce(&run->ranks, &id, 1, COMM_OR, "the name of the run", err);
    snprintf(run->saving.run_id, sizeof run->saving.run_id, "%016" PRIx64, (uint64_t)id);
    return status;
}

int run_open_saver(struct run *run, struct err *err)
{
    int status = run_describe_numerics(run, err);
    if (!status)
        status = run_tensors_describe(&run->compute, &run->update.optimizer,
                                      run->compute.partition.options.rank, false,
                                      &run->saving.tensors, err);
    status = run_ranks_agree(&run->ranks, status, "describing the state", err);
    if (!status)
        status = run_compare_numerics(run, err);
    if (!status)
        status = create_run_id(run, err);
    if (status)
        return status;
    struct ckpt_saver_options options = {
        .folder = run->saving.folder,
        .io = run->io,
        .comm = run->ranks.uncounted_comm,
        .per_node = !run->config->checkpoint.shared,
        .layout = (enum ckpt_layout)run->config->checkpoint.layout,
        .device = run->compute.device,
        .updates = run->compute.ops->stream,
        .groups_count = (uint32_t)run->compute.params->groups_count,
        .staging_bytes = run_staging_bytes(run),
        .keep = make_keep_options(run->config),
        .lock.kind = (enum io_lock_kind)run->config->checkpoint.owner,
        .run_id = run->saving.run_id,
        .numerics_id = str_text(&run->saving.numerics_id),
        .log = run->options->log,
        .trace = run->options->trace,
    };
    return ckpt_saver_open(&options, run->saving.tensors.list, run->saving.tensors.count,
                           &run->saving.saver, err);
}
