/*
 * comm_nccl — moves bulk data between GPUs with NCCL, on top of a host communicator.
 *
 *     // all ranks of host, each with a different GPU
 *     comm_nccl_open(host, device, timeout_ns, &comm, err);
 *     ... comm->ops->all_to_all(device memory) ..., comm->ops->split ...
 *     comm_close(comm);                                       // before host
 *
 * all_gather, all_to_all and reduce_scatter (COMM_FAST only) take device memory and run in NCCL, on
 * the stream of the communicator. All other calls use the host communicator.
 *
 * **Arrival check.** NCCL has no deadlines and cannot name late ranks. Therefore, each NCCL
 * operation is paired with an exchange of one word on the host communicator, with the same
 * deadline; it is done when both are. The check names late ranks and their activities. It ends the
 * run on all ranks and aborts NCCL's communicators and their work on the device. With
 * comm_checked_open it also detects different calls.
 *
 * Only open, split, wait and close wait for other ranks. test and wait make progress on all
 * communicators from one open call. Operations on one communicator run in order. Those on different
 * communicators run in parallel if CUDA_DEVICE_MAX_CONNECTIONS > 1 (the default). While operations
 * of two communicators are in flight, do not launch any kernel for the first time: loading it may
 * wait for all work on the device (CUDA_MODULE_LOADING), and ranks that start the operations in
 * different orders would deadlock.
 *
 * Threads: one thread at a time per communicator; different communicators concurrently.
 */
#ifndef MILLRACE_COMM_NCCL_COMM_NCCL_H
#define MILLRACE_COMM_NCCL_COMM_NCCL_H

#include "comm/comm.h"
#include "device/device.h"

/* -ENOTSUP: the build lacks NCCL, or the library is missing or too old. */
int comm_nccl_check(struct err *err);
/* Writes "NCCL 2.28.9". -ENOTSUP as above. */
enum { COMM_NCCL_TEXT_BYTES = 32 };
int comm_nccl_library(char text[COMM_NCCL_TEXT_BYTES], struct err *err);

/* Ends all operations on all communicators from one open call with -ECONNABORTED, on this rank and
 * in NCCL only. comm: any of them. After a failure that all ranks know about, each rank must call
 * this before closing; otherwise freeing device memory waits for ranks that have left. May block
 * until the other ranks on this machine call it too. If only this rank knows of the failure, call
 * abort, which notifies the others first. */
void comm_nccl_abort_local(struct comm *comm);

/* Collective, blocks. Borrows host and device. device: from device_cuda_open, a different one on
 * each rank. timeout_ns: for connecting, here and in split; 0: none. -EIO: NCCL failed. -ETIMEDOUT,
 * or an error from host. */
int comm_nccl_open(struct comm *host, struct device *device, uint64_t timeout_ns,
                   struct comm **ret_comm, struct err *err);

#endif
