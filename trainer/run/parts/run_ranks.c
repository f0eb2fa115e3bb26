/*
 * run_ranks — see run_ranks.h.
 */
#include "trainer/run/parts/run_ranks.h"

#include "base/clock.h"
#include "base/os/cpu_share.h"
#include "comm/comm_wrapper.h"
#include "comm/nccl/comm_nccl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int run_ranks_open_counting_comm(struct run_ranks *ranks, const struct train_config *config,
                                 struct err *err)
{
    int status = comm_counted_open(ranks->uncounted_comm, &ranks->traffic, &ranks->comm, err);
    ranks->bulk_comm = ranks->comm;
    ranks->serialized = config->parallel.debug;
    ranks->timeout_ns = config->parallel.timeout_ns;
    return status;
}

int run_ranks_open_bulk_comm(struct run_ranks *ranks, struct err *err)
{
    struct comm *bulk;
    int status = comm_counted_open(ranks->nccl_comm, &ranks->traffic, &bulk, err);
    if (!status)
        ranks->bulk_comm = bulk;
    return status;
}

static int assign_cpus(struct run_ranks *ranks, struct err *err)
{
    struct cpu_placement own;
    void *all;
    if (ranks->comm->ranks == 1)
        return 0;
    memset(&own, 0, sizeof own);
    cpu_placement_read(&own);
    int status = run_ranks_gather(ranks, &own, sizeof own, "the ranks' processors", &all, err);
    if (status)
        return status;
    ranks->cpus = cpu_share(all, (size_t)ranks->comm->ranks, (size_t)ranks->comm->rank);
    free(all);
    return 0;
}

int run_ranks_open(struct run_ranks *ranks, struct comm *external_comm,
                   const struct train_config *config, struct err *err)
{
    uint64_t timeout_ns = config->parallel.timeout_ns;
    int status = 0;
    if (external_comm)
        comm_set_activity(external_comm, "the beginning", 0, false);
    if (external_comm && external_comm->ops->set_timeout)
        external_comm->ops->set_timeout(external_comm, timeout_ns);
    if (!external_comm)
        status = comm_self_open(&ranks->own_comm, err);
    else if (config->parallel.debug)
        status = comm_checked_open(external_comm, timeout_ns, &ranks->own_comm, err);
    if (status)
        return status;
    ranks->uncounted_comm = ranks->own_comm ? ranks->own_comm : external_comm;
    status = run_ranks_open_counting_comm(ranks, config, err);
    return status ? status : assign_cpus(ranks, err);
}

void run_ranks_abort_nccl(struct run_ranks *ranks)
{
    if (ranks->nccl_comm)
        comm_nccl_abort_local(ranks->nccl_comm);
}

void run_ranks_close(struct run_ranks *ranks)
{
    comm_close(ranks->comm);
    comm_close(ranks->own_comm);
}

struct comm_options run_ranks_comm_options(const struct run_ranks *ranks, const char *purpose)
{
    uint64_t timeout_ns = ranks->timeout_ns;
    return (struct comm_options){.deadline_ns = timeout_ns > 0 ? clock_now_ns() + timeout_ns : 0,
                                 .purpose = purpose};
}

int run_ranks_agree(const struct run_ranks *ranks, int status, const char *purpose, struct err *err)
{
    if (ranks->comm->ranks == 1)
        return status;
    struct comm_options options = run_ranks_comm_options(ranks, purpose);
    return comm_agree(ranks->comm, status, &options, err);
}

int run_ranks_reduce(const struct run_ranks *ranks, int64_t *values, size_t count,
                     enum comm_i64_op op, const char *purpose, struct err *err)
{
    struct comm_options options = run_ranks_comm_options(ranks, purpose);
    struct comm *comm = ranks->comm;
    struct comm_work work;
    int status = comm->ops->all_reduce_i64(comm, values, count, op, &options, &work, err);
    return status ? status : comm_wait(comm, &work, err);
}

int run_ranks_gather(const struct run_ranks *ranks, const void *own, size_t bytes,
                     const char *purpose, void **ret_all, struct err *err)
{
    struct comm *comm = ranks->comm;
    char *all = calloc((size_t)comm->ranks, bytes);
    int status = all ? 0 : err_set(err, -ENOMEM, "out of memory for %s", purpose);
    status = run_ranks_agree(ranks, status, purpose, err);
    if (status) {
        free(all);
        return status;
    }
    struct comm_options options = run_ranks_comm_options(ranks, purpose);
    struct comm_work work;
    char *mine = all + (size_t)comm->rank * bytes;
    memcpy(mine, own, bytes);
    status = comm->ops->all_gather(comm, mine, all, bytes, &options, &work, err);
    if (!status)
        status = comm_wait(comm, &work, err);
    if (status) { /* the backend may still use it */
        comm_retain(all);
        return status;
    }
    *ret_all = all;
    return 0;
}
