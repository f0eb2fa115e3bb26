/*
 * nccl_comm — what the files of comm_nccl share: a communicator, its operations, and what all
 * communicators of one open share.
 *
 * An operation goes through these states; those of one communicator are launched in the order in
 * which they were started:
 *
 *     QUEUED ──(none before it is being launched)──> LAUNCHING
 *     LAUNCHING ──(NCCL has put it on the stream)──> RUNNING
 *     RUNNING ──(moved, and all called)──> DONE
 *
 * LAUNCHING is what a non-blocking communicator does after ncclInProgress: until it says otherwise
 * nothing else is asked of it, and nothing put on its stream.
 */
#ifndef MILLRACE_COMM_NCCL_NCCL_COMM_H
#define MILLRACE_COMM_NCCL_NCCL_COMM_H

#include "comm/comm.h"
#include "comm/nccl/nccl_library.h"
#include "device/device.h"

#include <pthread.h>

enum nccl_kind { NCCL_ALL_TO_ALL, NCCL_ALL_GATHER, NCCL_REDUCE_SCATTER };
enum nccl_state { NCCL_QUEUED, NCCL_LAUNCHING, NCCL_RUNNING, NCCL_DONE };

enum { NCCL_WHAT_BYTES = 64 };

/* Guarded by shared's mutex. */
struct nccl_op {
    struct nccl_op *next;
    enum nccl_kind kind;
    const char *send;
    char *receive;
    size_t count;        /* bytes of a rank, to gather; elements of a slice, to sum */
    ncclDataType_t type; /* of those */
    size_t *send_offsets, *send_bytes, *receive_offsets,
        *receive_bytes;             /* [ranks], of an all-to-all */
    uint64_t began_ns, deadline_ns; /* deadline: 0: none */
    char what[NCCL_WHAT_BYTES];

    enum nccl_state state;
    bool follows;               /* what the caller has queued: `ready` */
    struct device_event *ready; /* of the caller's stream */
    struct device_event *moved; /* of the communicator's */
    int64_t word;               /* of the arrival check */
    struct comm_work arrivals;
    int status; /* once done, with its detail */
    struct err detail;
};

/* Of the communicators that stem from one open. */
struct nccl_shared {
    const struct nccl_library *nccl; /* immutable, as those down to timeout_ns */
    struct device *device;
    uint64_t timeout_ns; /* of connecting; 0: none */
    pthread_mutex_t mutex;
    struct comm_nccl *comms; /* guarded, as all below: those that progress looks at */
    int comms_count;         /* and those that are being opened or closed */
    bool ended;
    struct err why;
};

/* base, shared, host and stream are immutable after open; what is below them is guarded by shared's
 * mutex. */
struct comm_nccl {
    struct comm base;
    struct nccl_shared *shared;
    struct comm *host; /* owned: of the same ranks */
    struct device_stream *stream;
    struct comm_nccl *next;
    ncclComm_t handle;                     /* NULL after the end */
    bool is_launching;                     /* an operation */
    struct nccl_op *first, *last, *unused; /* pending, in order */
};

static inline struct comm_nccl *nccl_of(struct comm *comm)
{
    return (struct comm_nccl *)comm;
}

/* 0 for ncclSuccess and ncclInProgress; else -EIO with what NCCL says. */
int nccl_status(const struct comm_nccl *comm, ncclResult_t result, const char *what,
                struct err *err);

/* All of these with the mutex held. */

/* A blank operation. -ENOMEM; -ECONNABORTED after the end. */
int nccl_op_take(struct comm_nccl *comm, const struct comm_options *options, const char *name,
                 struct nccl_op **ret_op, struct err *err);
void nccl_op_give(struct comm_nccl *comm, struct nccl_op *op);
/* Starts what was filled in. Where that fails the operation is taken back, and everything has
 * ended. */
int nccl_op_start(struct comm_nccl *comm, struct nccl_op *op, const struct comm_options *options,
                  struct err *err);
/* Moves all communicators on, as far as that goes without waiting. */
void nccl_progress(struct nccl_shared *shared);
/* Ends all that is in flight with -ECONNABORTED, here and, by the host's communicator, on the other
 * ranks. */
void nccl_end(struct comm_nccl *comm, const struct err *why);
/* The same here alone: for an end that all ranks know of. */
void nccl_halt(struct nccl_shared *shared);

/* Frees them, where nothing can be in flight any more; else they stay for ever. */
void nccl_ops_free(struct comm_nccl *comm);

#endif
