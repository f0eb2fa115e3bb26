/*
 * nccl_comm — internals of comm_nccl. The operations of a communicator are launched in order and
 * pass through these states:
 *
 *     QUEUED ──(no earlier one is launching)──> LAUNCHING
 *     LAUNCHING ──(NCCL has queued it on the stream)──> RUNNING
 *     RUNNING ──(transfer done, all ranks arrived)──> DONE
 *
 * LAUNCHING ends when NCCL no longer reports ncclInProgress. Until then, make no other NCCL call on
 * the communicator and queue nothing on its stream.
 */
#ifndef MILLRACE_COMM_NCCL_NCCL_COMM_H
#define MILLRACE_COMM_NCCL_NCCL_COMM_H

#include "comm/comm.h"
#include "comm/nccl/nccl_library.h"
#include "device/device.h"

#include <pthread.h>

enum nccl_kind { NCCL_ALL_TO_ALL, NCCL_ALL_GATHER, NCCL_REDUCE_SCATTER };
enum nccl_state { NCCL_QUEUED, NCCL_LAUNCHING, NCCL_RUNNING, NCCL_DONE };

enum { NCCL_PURPOSE_BYTES = 64 };

/* Guarded by nccl_shared's mutex. */
struct nccl_op {
    struct nccl_op *next;
    enum nccl_kind kind;
    const char *send;
    char *receive;
    size_t count;        /* gather: bytes per rank; sum: elements per slice */
    ncclDataType_t type; /* element type */
    /* all-to-all only: [ranks] each, in one allocation */
    size_t *send_offsets, *send_bytes, *receive_offsets, *receive_bytes;
    uint64_t began_ns, deadline_ns; /* deadline_ns 0: none */
    char purpose[NCCL_PURPOSE_BYTES];

    enum nccl_state state;
    bool waits_for_caller;                  /* waits for `ready_event` */
    struct device_event *ready_event;       /* recorded after the caller's queued work */
    struct device_event *transferred_event; /* recorded after the transfer */
    int64_t arrival_value;
    struct comm_work arrivals;
    int status;
    struct err detail;
};

/* Shared by the communicators from one open call. */
struct nccl_shared {
    const struct nccl_library *nccl; /* immutable, like all fields down to timeout_ns */
    struct device *device;
    uint64_t timeout_ns; /* for connecting; 0: none */
    pthread_mutex_t mutex;
    struct comm_nccl *comms; /* guarded by the mutex, like all members below */
    int comms_count;         /* includes communicators being opened or closed */
    bool has_ended;
    struct err reason;
};

/* base, shared, host and stream are immutable after open; nccl_shared's mutex guards the rest. */
struct comm_nccl {
    struct comm base;
    struct nccl_shared *shared;
    struct comm *host; /* owned; has the same ranks */
    struct device_stream *stream;
    struct comm_nccl *next;
    ncclComm_t handle; /* NULL after the end */
    bool is_launching; /* an operation is LAUNCHING */
    struct nccl_op *pending_first, *pending_last, *unused_ops;
};

static inline struct comm_nccl *nccl_of(struct comm *comm)
{
    return (struct comm_nccl *)comm;
}

/* Returns 0 for ncclSuccess or ncclInProgress, else -EIO with NCCL's error. */
int nccl_check_result(const struct comm_nccl *comm, ncclResult_t result, const char *action,
                      struct err *err);

/* Call all functions below with the mutex held. */

/* Returns a blank operation. -ECONNABORTED: the run has ended. */
int nccl_op_acquire(struct comm_nccl *comm, const struct comm_options *options, const char *name,
                    struct nccl_op **ret_op, struct err *err);
void nccl_op_release(struct comm_nccl *comm, struct nccl_op *op);
/* Starts the operation. On failure, releases it and ends the run. */
int nccl_op_start(struct comm_nccl *comm, struct nccl_op *op, const struct comm_options *options,
                  struct err *err);
/* Makes progress on all communicators without blocking. */
void nccl_progress(struct nccl_shared *shared);
/* Ends all operations with -ECONNABORTED, here and, through the host communicator, on the other
 * ranks. */
void nccl_end_run(struct comm_nccl *comm, const struct err *reason);
/* Likewise, on this rank only. */
void nccl_abort_local(struct nccl_shared *shared);

/* Frees operations unless they may be in flight. */
void nccl_ops_free(struct comm_nccl *comm);

#endif
