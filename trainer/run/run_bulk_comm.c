/*
 * run_bulk_comm — chooses a rank's GPU, and the communicator for weights and gradients. See run.h.
 */
#include "trainer/run/run.h"

#include "base/hash.h"
#include "base/os/machine.h"
#include "comm/nccl/comm_nccl.h"
#include "device/device_cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool may_use_gpu(const struct run *run)
{
    const char *name = config_device_name(run->config->device);
    return strcmp(name, "cuda") == 0 || strcmp(name, "auto") == 0;
}

int run_open_device(struct run *run, struct err *err)
{
    const char *name = config_device_name(run->config->device);
    char gpu_name[24] = "";
    int count = 0, rank = run->options->local_rank;
    if (config_is_null_device(run->config)) {
        err_set(err, -EINVAL, "device null computes nothing");
        err_advise(err, "use --set device=auto; with device null, `millrace train` only reports "
                        "what a run needs");
        return -EINVAL;
    }
    if (may_use_gpu(run) && rank > 0 && device_cuda_count(&count, NULL) == 0 && count > 0)
        snprintf(gpu_name, sizeof gpu_name, "cuda:%d", rank % count);
    return device_open(gpu_name[0] ? gpu_name : name, &run->compute.device, err);
}

struct rank_gpu {
    uint64_t machine, gpu; /* hashes of boot id or host name, and of PCI bus id */
    int32_t is_gpu, has_nccl;
};

/* Prefers the boot id, since containers on one machine share it and may share GPUs. */
static uint64_t machine_hash(void)
{
    char name[MACHINE_HOST_ID_BYTES];
    if (!*machine_boot_id(name, sizeof name))
        machine_host_id(name);
    return hash_64(name, strlen(name));
}

static struct rank_gpu describe_own_gpu(const struct run *run)
{
    struct rank_gpu own = {.is_gpu = strcmp(run->compute.device->ops->name, "cuda") == 0};
    if (!own.is_gpu)
        return own;
    const char *bus = device_cuda_info(run->compute.device)->bus;
    own.machine = machine_hash();
    own.gpu = hash_64(bus, strlen(bus));
    own.has_nccl = comm_nccl_check(NULL) == 0;
    return own;
}

/* Why ranks cannot use NCCL. */
struct nccl_obstacle {
    bool has_gpus;
    bool lacks_nccl; /* the first rank that prevents NCCL has its own GPU */
};

/* -ENOTSUP, on all ranks, names the first rank that lacks NCCL or its own GPU. */
static int check_gpus(const struct rank_gpu *gpus, int ranks, struct nccl_obstacle *ret_obstacle,
                      struct err *err)
{
    for (int r = 0; r < ranks; r++)
        ret_obstacle->has_gpus = ret_obstacle->has_gpus || gpus[r].is_gpu;
    for (int r = 0; r < ranks; r++) {
        if (!gpus[r].is_gpu)
            return err_set(err, -ENOTSUP, "rank %d does not compute on a GPU", r);
        if (!gpus[r].has_nccl) {
            ret_obstacle->lacks_nccl = true;
            return err_set(err, -ENOTSUP, "rank %d has no usable NCCL", r);
        }
        for (int other = 0; other < r; other++)
            if (gpus[r].machine == gpus[other].machine && gpus[r].gpu == gpus[other].gpu)
                return err_set(err, -ENOTSUP, "ranks %d and %d share a GPU", other, r);
    }
    return 0;
}

/* Collective. -ENOTSUP as for check_gpus. */
static int compare_gpus(const struct run *run, struct nccl_obstacle *ret_obstacle, struct err *err)
{
    const struct rank_gpu own = describe_own_gpu(run);
    void *gpus;
    int status = run_ranks_gather(&run->ranks, &own, sizeof own, "the ranks' GPUs", &gpus, err);
    if (status)
        return status;
    status = check_gpus(gpus, run->ranks.comm->ranks, ret_obstacle, err);
    free(gpus);
    return status;
}

static int open_nccl(struct run *run, struct err *err)
{
    int status = comm_nccl_open(run->ranks.uncounted_comm, run->compute.device,
                                run->config->parallel.timeout_ns, &run->ranks.nccl_comm, err);
    if (status) {
        err_advise(err,
                   "set NCCL_DEBUG=INFO for details, or parallel.comm: host to run without NCCL");
        return status;
    }
    status =
        run_ranks_agree(&run->ranks, run_ranks_open_bulk_comm(&run->ranks, err), "connecting", err);
    if (status)
        return status;
    run->ranks.serialized = true;
    char library[COMM_NCCL_TEXT_BYTES];
    bool sends_gradients = config_gradients_bypass_host(run->config);
    comm_nccl_library(library, NULL);
    run_log(run, "ranks: %s are sent from GPU to GPU with %s%s",
            sends_gradients ? "weights and gradients" : "weights", library,
            sends_gradients ? "" : ", sums go through the host");
    return 0;
}

/* no_nccl: names a rank without NCCL. The reason is known only if this rank lacks it too. */
static void warn_host_transfer(const struct run *run, const struct err *no_nccl)
{
    struct err why = {0};
    char text[ERR_LINE_BYTES_MAX];
    if (run->ranks.comm->rank != 0)
        return;
    if (comm_nccl_check(&why) == 0)
        err_advise(&why, "run millrace doctor on its machine to see why");
    log_line(run->options->log, LOG_WARN,
             "weights and gradients go through the host, which is much slower than from GPU to "
             "GPU: %s; %s; set parallel.comm: host to silence this warning",
             no_nccl->what, why.what[0] ? err_format(&why, text, sizeof text) : why.advice);
}

int run_open_bulk_comm(struct run *run, struct err *err)
{
    enum config_comm wanted = (enum config_comm)run->config->parallel.comm;
    struct err detail = {0};
    struct nccl_obstacle obstacle = {0};
    if (run->ranks.comm->ranks == 1 || wanted == CONFIG_COMM_HOST ||
        (wanted == CONFIG_COMM_AUTO && !may_use_gpu(run)))
        return 0;
    int status = compare_gpus(run, &obstacle, &detail);
    if (!status)
        return open_nccl(run, err);
    if (status == -ENOTSUP && wanted == CONFIG_COMM_AUTO) {
        if (obstacle.lacks_nccl)
            warn_host_transfer(run, &detail);
        else if (obstacle.has_gpus)
            run_log(run, "ranks: weights and gradients go through the host because %s",
                    detail.what);
        return 0;
    }
    if (status == -ENOTSUP)
        err_advise(&detail, "give each rank its own GPU, check NCCL with millrace doctor, or set "
                            "parallel.comm: host");
    if (err)
        *err = detail;
    return status;
}
