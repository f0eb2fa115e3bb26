/*
 * comm_nccl — what lies in GPUs, moved from one to the other by NCCL: a communicator for bulk,
 * beside one of the host that does all else.
 *
 *     // all ranks of host, each with a GPU of its own
 *     comm_nccl_open(host, device, timeout_ns, &comm, err);
 *     ... comm->ops->all_to_all(device memory) ..., comm->ops->split ...
 *     comm_close(comm);                                       // before host
 *
 * all_gather, all_to_all and reduce_scatter take device memory and go on NCCL's side, on a stream
 * of the communicator's own; what is there is never copied through the host. Nothing is added by
 * NCCL but in reduce_scatter with COMM_FAST, so all else has the bits that it has over any other
 * backend. Integers, messages and notes, which are few and small, are the host's communicator's, as
 * are the names of late ranks:
 *
 * **The arrival check.** With each operation of NCCL goes an exchange of a word by the host's
 * communicator, with the operation's own deadline; it is done when both are. NCCL knows nothing of
 * deadlines, nor who is late; the arrival check ends with the ranks that did not come, and what
 * they were doing, and ends the run on all ranks. Then NCCL's communicators are aborted, and with
 * them what waits on the device. Over comm_checked it finds ranks that make different calls, too.
 *
 * NCCL's communicators are non-blocking: no call of this backend but open, split, wait and close
 * waits for another rank. Whoever tests or waits moves all communicators of one open on, so that
 * none waits for one that nobody looks at. Operations of one communicator run in order; those of
 * different ones side by side, which wants CUDA_DEVICE_MAX_CONNECTIONS to be more than 1, as it is
 * unless it is set. While operations of two of them are in flight nothing may be launched that was
 * never launched before: loading it may wait for all that the device has (CUDA_MODULE_LOADING), and
 * ranks that start operations of different communicators in different orders would wait for each
 * other.
 *
 * Threads: communicators may be used at the same time by different threads, each by one thread at a
 * time.
 */
#ifndef MILLRACE_COMM_NCCL_COMM_NCCL_H
#define MILLRACE_COMM_NCCL_COMM_NCCL_H

#include "comm/comm.h"
#include "device/device.h"

/* 0 where open can do its work here. -ENOTSUP with what is missing: the build's NCCL, the library,
 * or one that is new enough. */
int comm_nccl_check(struct err *err);
/* What moves the bytes, "NCCL 2.28.9". -ENOTSUP as above. Returns status. */
enum { COMM_NCCL_TEXT_BYTES = 32 };
int comm_nccl_library(char text[COMM_NCCL_TEXT_BYTES], struct err *err);

/* Of a communicator that stems from comm_nccl_open: what is in flight on any of that open's ends
 * with -ECONNABORTED, on this rank and on NCCL's side alone. Called before closing by each rank,
 * after a failure that all of them know of: until then the device would wait for ranks that will
 * not come, and whoever frees its memory for the device. It may wait for the others to do the same,
 * as NCCL does for those of the machine: whoever knows of a failure that the others don't calls
 * abort, which tells them first. */
void comm_nccl_halt(struct comm *comm);

/* host, device: borrowed. device: of device_cuda_open, another one on each rank. timeout_ns: for
 * connecting, here and in split; 0: none. Collective, blocks. -EIO where NCCL fails, -ETIMEDOUT, or
 * as the host's communicator. */
int comm_nccl_open(struct comm *host, struct device *device, uint64_t timeout_ns,
                   struct comm **ret_comm, struct err *err);

#endif
