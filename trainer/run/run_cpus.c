/*
 * run_cpus — divides a machine's CPUs among its ranks. See run.h.
 */
#include "trainer/run/run.h"

#include "base/os/cpu_share.h"

#include <errno.h>
#include <stdlib.h>

int run_share_cpus(struct run *run, struct err *err)
{
    size_t ranks = (size_t)run->comm->ranks, rank = (size_t)run->comm->rank;
    if (ranks == 1)
        return 0;
    struct cpu_placement *placements = calloc(ranks, sizeof *placements);
    const struct comm_options options = run_comm_options(run, "the ranks' processors");
    struct comm_work work;
    int status =
        placements ? 0
                   : err_set(err, -ENOMEM, "out of memory for the processors of %zu ranks", ranks);
    status = run_agree(run, status, options.what, err);
    if (status) {
        free(placements);
        return status;
    }
    cpu_placement_read(&placements[rank]);
    status = run->comm->ops->all_gather(run->comm, &placements[rank], placements,
                                        sizeof *placements, &options, &work, err);
    if (!status)
        status = comm_wait(run->comm, &work, err);
    if (status) {
        comm_retain(placements);
        return status;
    }
    run->cpus = cpu_share(placements, ranks, rank);
    free(placements);
    return 0;
}

unsigned run_threads(const struct run *run)
{
    return run->config->threads > 0 ? (unsigned)run->config->threads : run->cpus;
}

unsigned run_workers(const struct run *run)
{
    return run->config->data.workers > 0 ? (unsigned)run->config->data.workers : run->cpus;
}
