/*
 * comm_nccl — moves data between GPUs by NCCL: a communicator for bulk data, on top of a host
 * communicator that does everything else.
 *
 *     // all ranks of host, each with a different GPU
 *     comm_nccl_open(host, device, timeout_ns, &comm, err);
 *     ... comm->ops->all_to_all(device memory) ..., comm->ops->split ...
 *     comm_close(comm);                                       // before host
 *
 * all_gather, all_to_all and reduce_scatter take device memory and run in NCCL, on the
 * communicator's stream. NCCL adds only in reduce_scatter with COMM_FAST, so all other bits are
 * those of any other backend. Integers, messages and activities use the host communicator.
 *
 * **The arrival check.** NCCL has no deadlines and cannot name late ranks. So each NCCL operation
 * is paired with an exchange of one word on the host communicator, with the same deadline, and is
 * done when both are. The check names the late ranks and their activities, and ends the run on all
 * ranks. NCCL's communicators are then aborted, and with them what waits on the device. Over
 * comm_checked_open it also finds ranks that make different calls.
 *
 * Only open, split, wait and close wait for another rank. A test or wait makes progress on all
 * communicators of one open. Operations of one communicator run in order, those of different ones
 * in parallel, which requires CUDA_DEVICE_MAX_CONNECTIONS above 1, the default. While operations of
 * two communicators are in flight, do not launch any kernel for the first time: loading it may wait
 * for all work on the device (CUDA_MODULE_LOADING), and ranks that start the operations in
 * different orders would deadlock.
 *
 * Threads: one thread at a time per communicator; different communicators concurrently.
 */
#ifndef MILLRACE_COMM_NCCL_COMM_NCCL_H
#define MILLRACE_COMM_NCCL_COMM_NCCL_H

#include "comm/comm.h"
#include "device/device.h"

/* Returns 0 if open can work here. -ENOTSUP with what is missing: NCCL in the build, the library,
 * or a recent enough version. */
int comm_nccl_check(struct err *err);
/* Writes the library and version, "NCCL 2.28.9". -ENOTSUP as above. */
enum { COMM_NCCL_TEXT_BYTES = 32 };
int comm_nccl_library(char text[COMM_NCCL_TEXT_BYTES], struct err *err);

/* Ends everything in flight on all communicators of one open with -ECONNABORTED, on this rank and
 * in NCCL only. comm: any of them. After a failure that all ranks know of, each calls it before
 * closing; otherwise freeing device memory waits for ranks that will not come. May block until the
 * other ranks of this machine call it too. If only this rank knows of the failure, call abort,
 * which notifies the others first. */
void comm_nccl_abort_local(struct comm *comm);

/* host, device: borrowed. device: from device_cuda_open, a different one on each rank. timeout_ns:
 * for connecting, here and in split; 0: none. Collective, blocks. -EIO: NCCL failed. -ETIMEDOUT, or
 * errors of the host communicator. */
int comm_nccl_open(struct comm *host, struct device *device, uint64_t timeout_ns,
                   struct comm **ret_comm, struct err *err);

#endif
