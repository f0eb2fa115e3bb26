/*
 * comm_nccl_absent — comm_nccl.h for programs without NCCL.
 */
#include "comm/nccl/comm_nccl.h"

#include <errno.h>

int comm_nccl_check(struct err *err)
{
    err_set(err, -ENOTSUP, "this build has no NCCL");
    err_advise(err, "install the CUDA toolkit and nccl.h and rebuild, or use parallel.comm: host");
    return -ENOTSUP;
}

int comm_nccl_library(char text[COMM_NCCL_TEXT_BYTES], struct err *err)
{
    (void)text;
    return comm_nccl_check(err);
}

void comm_nccl_abort_local(struct comm *comm)
{
    (void)comm;
}

int comm_nccl_open(struct comm *host, struct device *device, uint64_t timeout_ns,
                   struct comm **ret_comm, struct err *err)
{
    (void)host, (void)device, (void)timeout_ns, (void)ret_comm;
    return comm_nccl_check(err);
}
