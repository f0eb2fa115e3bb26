/*
 * nccl_op — operations of comm_nccl. See nccl_comm.h.
 */
#include "base/clock.h"
#include "comm/nccl/nccl_comm.h"
#include "device/device_cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REASON_NS = 1000000000, REASON_PAUSE_NS = 1000000 };

int nccl_check_result(const struct comm_nccl *comm, ncclResult_t result, const char *action,
                      struct err *err)
{
    const struct nccl_library *nccl = comm->shared->nccl;
    if (result == ncclSuccess || result == ncclInProgress)
        return 0;
    err_set(err, -EIO, "NCCL failed: %.60s: %.80s", action, nccl->GetErrorString(result));
    err_found(err, "%.200s", nccl->GetLastError(comm->handle));
    err_advise(err, "set NCCL_DEBUG=INFO for details; restart from the last checkpoint");
    return -EIO;
}

/* Storage. */

static void free_op(struct comm_nccl *comm, struct nccl_op *op)
{
    struct device *device = comm->shared->device;
    device->ops->event_close(device, op->ready_event);
    device->ops->event_close(device, op->transferred_event);
    free(op->send_offsets);
    free(op);
}

static int create_op(struct comm_nccl *comm, struct nccl_op **ret_op, struct err *err)
{
    struct device *device = comm->shared->device;
    size_t ranks = (size_t)comm->base.ranks;
    struct nccl_op *op = calloc(1, sizeof *op);
    size_t *slices = calloc(4 * ranks, sizeof *slices);
    if (!op || !slices) {
        free(op);
        free(slices);
        return err_set(err, -ENOMEM, "out of memory for an exchange of %zu ranks", ranks);
    }
    op->send_offsets = slices;
    op->send_bytes = slices + ranks;
    op->receive_offsets = slices + 2 * ranks;
    op->receive_bytes = slices + 3 * ranks;
    int status = device->ops->event_open(device, &op->ready_event, err);
    if (!status)
        status = device->ops->event_open(device, &op->transferred_event, err);
    if (status)
        free_op(comm, op);
    else
        *ret_op = op;
    return status;
}

void nccl_ops_free(struct comm_nccl *comm)
{
    struct nccl_op *next;
    for (struct nccl_op *op = comm->unused_ops; op; op = next) {
        next = op->next;
        if (comm->shared->has_ended)
            comm_retain(op);
        else
            free_op(comm, op);
    }
    for (struct nccl_op *op = comm->pending_first; op; op = next) {
        next = op->next;
        comm_retain(op);
    }
    comm->unused_ops = comm->pending_first = comm->pending_last = NULL;
}

static int ended_error(const struct nccl_shared *shared, struct err *err)
{
    if (err)
        *err = shared->reason;
    return -ECONNABORTED;
}

int nccl_op_acquire(struct comm_nccl *comm, const struct comm_options *options, const char *name,
                    struct nccl_op **ret_op, struct err *err)
{
    struct nccl_op *op = comm->unused_ops;
    if (comm->shared->has_ended)
        return ended_error(comm->shared, err);
    int status = op ? 0 : create_op(comm, &op, err);
    if (status)
        return status;
    if (op == comm->unused_ops)
        comm->unused_ops = op->next;
    op->next = NULL;
    op->state = NCCL_QUEUED;
    op->waits_for_caller = false;
    op->status = 0;
    op->arrival_value = 0;
    err_clear(&op->detail);
    op->began_ns = clock_now_ns();
    op->deadline_ns = options ? options->deadline_ns : 0;
    snprintf(op->purpose, sizeof op->purpose, "%s",
             options && options->purpose ? options->purpose : name);
    *ret_op = op;
    return 0;
}

void nccl_op_release(struct comm_nccl *comm, struct nccl_op *op)
{
    op->next = comm->unused_ops;
    comm->unused_ops = op;
}

/* NCCL side. */

static ncclResult_t post_slices(const struct comm_nccl *comm, const struct nccl_op *op)
{
    const struct nccl_library *nccl = comm->shared->nccl;
    cudaStream_t stream = device_cuda_stream(comm->stream);
    ncclResult_t result = nccl->GroupStart();
    if (result != ncclSuccess)
        return result;
    for (int i = 1; i < comm->base.ranks; i++) {
        int rank = (comm->base.rank + i) % comm->base.ranks;
        if (op->receive_bytes[rank] > 0 && (result == ncclSuccess || result == ncclInProgress))
            result = nccl->Recv(op->receive + op->receive_offsets[rank], op->receive_bytes[rank],
                                ncclInt8, rank, comm->handle, stream);
        if (op->send_bytes[rank] > 0 && (result == ncclSuccess || result == ncclInProgress))
            result = nccl->Send(op->send + op->send_offsets[rank], op->send_bytes[rank], ncclInt8,
                                rank, comm->handle, stream);
    }
    ncclResult_t ended = nccl->GroupEnd(); /* required even on failure */
    return result == ncclSuccess || result == ncclInProgress ? ended : result;
}

static ncclResult_t post(const struct comm_nccl *comm, const struct nccl_op *op)
{
    const struct nccl_library *nccl = comm->shared->nccl;
    cudaStream_t stream = device_cuda_stream(comm->stream);
    if (op->kind == NCCL_ALL_TO_ALL)
        return post_slices(comm, op);
    if (op->count == 0)
        return ncclSuccess;
    return op->kind == NCCL_ALL_GATHER
               ? nccl->AllGather(op->send, op->receive, op->count, op->type, comm->handle, stream)
               : nccl->ReduceScatter(op->send, op->receive, op->count, op->type, ncclSum,
                                     comm->handle, stream);
}

static int copy_own_slice(struct comm_nccl *comm, const struct nccl_op *op, struct err *err)
{
    struct device *device = comm->shared->device;
    int own = comm->base.rank;
    if (op->send_bytes[own] == 0)
        return 0;
    return device->ops->copy(device, comm->stream, op->receive + op->receive_offsets[own],
                             op->send + op->send_offsets[own], op->send_bytes[own], err);
}

static int launch_op(struct comm_nccl *comm, struct nccl_op *op, struct err *err)
{
    struct device *device = comm->shared->device;
    int status = op->waits_for_caller
                     ? device->ops->stream_wait_event(device, comm->stream, op->ready_event, err)
                     : device_cuda_use(device, err);
    if (!status && op->kind == NCCL_ALL_TO_ALL)
        status = copy_own_slice(comm, op, err);
    if (!status)
        status = nccl_check_result(comm, post(comm, op), op->purpose, err);
    op->state = NCCL_LAUNCHING;
    comm->is_launching = true;
    return status;
}

/* Checks whether NCCL has queued the operation and whether the stream has completed it. */
static int check_stream(struct comm_nccl *comm, struct nccl_op *op, bool *ret_transferred,
                        struct err *err)
{
    struct device *device = comm->shared->device;
    ncclResult_t result = ncclSuccess;
    int status = nccl_check_result(
        comm, comm->shared->nccl->CommGetAsyncError(comm->handle, &result), op->purpose, err);
    if (!status)
        status = nccl_check_result(comm, result, op->purpose, err);
    if (status)
        return status;
    if (op->state == NCCL_LAUNCHING && result == ncclSuccess) {
        status = device->ops->event_record(device, op->transferred_event, comm->stream, err);
        op->state = NCCL_RUNNING;
        comm->is_launching = false;
    }
    if (!status && op->state == NCCL_RUNNING)
        status = device->ops->event_done(device, op->transferred_event, ret_transferred, err);
    return status;
}

/* NCCL often fails because another rank ended the run. That rank sends the reason before it aborts;
 * wait for it. */
static int wait_for_reason(const struct comm_nccl *comm, int status, struct err *err)
{
    uint64_t until_ns = clock_now_ns() + REASON_NS;
    while (comm->host->ops->check && clock_now_ns() < until_ns) {
        int ended = comm_check(comm->host, err);
        if (ended)
            return ended;
        nanosleep(&(struct timespec){.tv_nsec = REASON_PAUSE_NS}, NULL);
    }
    return status;
}

/* The arrival check. */

static int start_arrival_check(struct comm_nccl *comm, struct nccl_op *op, struct err *err)
{
    const struct comm_options options = {.deadline_ns = op->deadline_ns, .purpose = op->purpose};
    return comm->host->ops->all_reduce_i64(comm->host, &op->arrival_value, 1, COMM_SUM, &options,
                                           &op->arrivals, err);
}

static bool is_late(const struct nccl_op *op)
{
    return op->deadline_ns && clock_now_ns() >= op->deadline_ns;
}

/* After the deadline, the host communicator fails and names the late ranks, or waits longer. If
 * all ranks arrive, the transfer gets another full timeout. */
static int wait_for_arrivals(struct comm_nccl *comm, struct nccl_op *op, bool *ret_arrived,
                             struct err *err)
{
    int status = comm_wait(comm->host, &op->arrivals, err);
    *ret_arrived = true;
    uint64_t now_ns = clock_now_ns();
    op->deadline_ns += now_ns - op->began_ns;
    op->began_ns = now_ns;
    return status;
}

static int check_arrivals(struct comm_nccl *comm, struct nccl_op *op, bool *ret_arrived,
                          struct err *err)
{
    *ret_arrived = op->arrivals.done;
    if (op->arrivals.done && op->arrivals.status)
        return op->arrivals.status;
    if (op->arrivals.done) /* another rank may have ended the run */
        return comm_check(comm->host, err);
    if (is_late(op))
        return wait_for_arrivals(comm, op, ret_arrived, err);
    return comm->host->ops->test(&op->arrivals, ret_arrived, err);
}

static int late_error(const struct comm_nccl *comm, const struct nccl_op *op, struct err *err)
{
    err_set(err, -ETIMEDOUT, "rank %d of %d waited too long for %s", comm->base.rank,
            comm->base.ranks, op->purpose);
    err_found(err, "all ranks arrived, but their GPUs or the network made no progress");
    err_advise(err, "set NCCL_DEBUG=INFO for details; raise the timeout if they are only slow");
    return -ETIMEDOUT;
}

/* Progress. */

static int progress_op(struct comm_nccl *comm, struct nccl_op *op, struct err *err)
{
    bool is_transferred = false, have_arrived = false;
    int status = 0;
    if (op->state == NCCL_QUEUED && !comm->is_launching)
        status = launch_op(comm, op, err);
    if (!status && op->state != NCCL_QUEUED)
        status = check_stream(comm, op, &is_transferred, err);
    if (status)
        return wait_for_reason(comm, status, err);
    status = check_arrivals(comm, op, &have_arrived, err);
    if (status)
        return status;
    if (is_transferred && have_arrived)
        op->state = NCCL_DONE;
    else if (is_late(op))
        return late_error(comm, op, err);
    return 0;
}

/* -errno: the run has ended. */
static int progress_comm(struct comm_nccl *comm)
{
    struct nccl_op **link = &comm->pending_first, *before = NULL;
    while (*link) {
        struct nccl_op *op = *link;
        struct err detail = {0};
        int status = progress_op(comm, op, &detail);
        if (!status && op->state != NCCL_DONE) {
            before = op;
            link = &op->next;
            continue;
        }
        *link = op->next;
        if (comm->pending_last == op)
            comm->pending_last = before;
        if (status) {
            op->state = NCCL_DONE;
            op->status = status;
            op->detail = detail;
            nccl_end_run(comm, &detail);
            return status;
        }
    }
    return 0;
}

void nccl_progress(struct nccl_shared *shared)
{
    for (struct comm_nccl *comm = shared->comms; comm && !shared->has_ended; comm = comm->next)
        progress_comm(comm);
}

int nccl_op_start(struct comm_nccl *comm, struct nccl_op *op, const struct comm_options *options,
                  struct err *err)
{
    struct device *device = comm->shared->device;
    struct err detail = {0};
    int status = 0;
    op->waits_for_caller = options && options->stream;
    if (op->waits_for_caller)
        status = device->ops->event_record(device, op->ready_event, options->stream, &detail);
    if (!status)
        status = start_arrival_check(comm, op, &detail);
    if (status) {
        if (err)
            *err = detail;
        nccl_end_run(comm, &detail);
        nccl_op_release(comm, op);
        return status;
    }
    if (comm->pending_last)
        comm->pending_last->next = op;
    else
        comm->pending_first = op;
    comm->pending_last = op;
    progress_comm(comm); /* sets the operation's status on failure */
    return 0;
}

/* Aborts all communicators in one group: an abort frees memory and thus waits for kernels of the
 * other communicators. Those kernels end only when their communicators are aborted too. */
static void abort_all_comms(struct nccl_shared *shared)
{
    shared->has_ended = true;
    shared->nccl->GroupStart();
    for (struct comm_nccl *each = shared->comms; each; each = each->next) {
        for (struct nccl_op *op = each->pending_first; op; op = op->next) {
            op->state = NCCL_DONE;
            op->status = -ECONNABORTED;
            op->detail = shared->reason;
        }
        each->pending_first = each->pending_last = NULL;
        if (each->handle)
            shared->nccl->CommAbort(each->handle);
        each->handle = NULL;
    }
    shared->nccl->GroupEnd();
}

void nccl_end_run(struct comm_nccl *comm, const struct err *reason)
{
    struct nccl_shared *shared = comm->shared;
    if (shared->has_ended)
        return;
    shared->reason = *reason;
    if (reason->code != -ECONNABORTED)
        err_set(&shared->reason, -ECONNABORTED, "the run was ended: rank %d: %.180s",
                comm->base.rank, reason->what);
    /* Do this before aborting NCCL, which does not transfer the reason and may wait for the other
     * ranks. */
    comm->host->ops->abort(comm->host);
    abort_all_comms(shared);
}

void nccl_abort_local(struct nccl_shared *shared)
{
    if (shared->has_ended)
        return;
    err_set(&shared->reason, -ECONNABORTED, "operations in flight between GPUs were aborted");
    abort_all_comms(shared);
}
