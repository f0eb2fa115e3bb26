/*
 * nccl_library — NCCL's functions, named without their prefix. They come from the library, loaded
 * on first use, or from a test double.
 */
#ifndef MILLRACE_COMM_NCCL_NCCL_LIBRARY_H
#define MILLRACE_COMM_NCCL_NCCL_LIBRARY_H

#include "base/err.h"

#include <nccl.h>

struct nccl_library {
    ncclResult_t (*GetVersion)(int *version);
    ncclResult_t (*GetUniqueId)(ncclUniqueId *id);
    ncclResult_t (*CommInitRankConfig)(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                       ncclConfig_t *config);
    ncclResult_t (*CommGetAsyncError)(ncclComm_t comm, ncclResult_t *error);
    ncclResult_t (*CommFinalize)(ncclComm_t comm);
    ncclResult_t (*CommDestroy)(ncclComm_t comm);
    ncclResult_t (*CommAbort)(ncclComm_t comm);
    const char *(*GetErrorString)(ncclResult_t result);
    const char *(*GetLastError)(ncclComm_t comm);
    ncclResult_t (*GroupStart)(void);
    ncclResult_t (*GroupEnd)(void);
    ncclResult_t (*Send)(const void *data, size_t count, ncclDataType_t type, int to,
                         ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*Recv)(void *data, size_t count, ncclDataType_t type, int from, ncclComm_t comm,
                         cudaStream_t stream);
    ncclResult_t (*AllGather)(const void *send, void *receive, size_t count, ncclDataType_t type,
                              ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*ReduceScatter)(const void *send, void *receive, size_t count,
                                  ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                  cudaStream_t stream);
};

/* The table is static. -ENOTSUP names the missing library or function. Thread-safe. */
int nccl_library_load(const struct nccl_library **ret_library, struct err *err);

#endif
