/*
 * comm_nccl — see comm_nccl.h. nccl_op.c executes the operations.
 */
#include "comm/nccl/comm_nccl.h"

#include "base/clock.h"
#include "comm/nccl/nccl_comm.h"
#include "device/device_cuda.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* After this time, NCCL is aborted. */
#define CLOSE_TIMEOUT_NS (10 * CLOCK_NS_PER_S)

enum {
    PAUSE_DIVISOR = 16, /* 1/16 of the time waited so far */
    PAUSE_FIRST_NS = 5000,
    PAUSE_LAST_NS = 500000,
};

static const struct comm_ops nccl_ops;

static void sleep_backoff(uint64_t since_ns)
{
    uint64_t pause_ns = (clock_now_ns() - since_ns) / PAUSE_DIVISOR;
    pause_ns = pause_ns < PAUSE_FIRST_NS ? PAUSE_FIRST_NS : pause_ns;
    pause_ns = pause_ns > PAUSE_LAST_NS ? PAUSE_LAST_NS : pause_ns;
    nanosleep(&(struct timespec){.tv_nsec = (long)pause_ns}, NULL);
}

/* Operations. */

struct op_request {
    enum nccl_kind kind;
    const char *name;
    const void *send;
    void *receive;
    size_t count;
    ncclDataType_t type;
    const size_t *slices[4]; /* all-to-all only, in nccl_op's order */
};

static int start_op(struct comm *base, const struct op_request *request,
                    const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct comm_nccl *comm = nccl_of(base);
    size_t ranks = (size_t)base->ranks;
    struct nccl_op *op;
    pthread_mutex_lock(&comm->shared->mutex);
    int status = nccl_op_acquire(comm, options, request->name, &op, err);
    if (!status) {
        op->kind = request->kind;
        op->send = request->send;
        op->receive = request->receive;
        op->count = request->count;
        op->type = request->type;
        for (size_t i = 0; i < 4 && request->slices[i]; i++)
            memcpy(op->send_offsets + i * ranks, request->slices[i], ranks * sizeof(size_t));
        *work = (struct comm_work){.comm = base,
                                   .state = op,
                                   .deadline_ns = op->deadline_ns,
                                   .purpose = options ? options->purpose : NULL};
        status = nccl_op_start(comm, op, options, err);
    }
    pthread_mutex_unlock(&comm->shared->mutex);
    return status;
}

static int nccl_all_gather(struct comm *comm, const void *send, void *receive, size_t bytes,
                           const struct comm_options *options, struct comm_work *work,
                           struct err *err)
{
    const struct op_request request = {.kind = NCCL_ALL_GATHER,
                                       .name = "gathering",
                                       .send = send,
                                       .receive = receive,
                                       .count = bytes,
                                       .type = ncclInt8};
    return start_op(comm, &request, options, work, err);
}

static int nccl_reduce_scatter(struct comm *comm, const void *send, void *receive, size_t count,
                               enum dtype dtype, enum comm_reduce_order order,
                               const struct comm_options *options, struct comm_work *work,
                               struct err *err)
{
    assert(dtype == DTYPE_F32 || dtype == DTYPE_F64);
    const struct op_request request = {.kind = NCCL_REDUCE_SCATTER,
                                       .name = "a sum over the ranks",
                                       .send = send,
                                       .receive = receive,
                                       .count = count,
                                       .type = dtype == DTYPE_F32 ? ncclFloat32 : ncclFloat64};
    return order == COMM_FAST ? start_op(comm, &request, options, work, err)
                              : err_set(err, -ENOTSUP, "NCCL does not add in a fixed order");
}

static int nccl_all_to_all(struct comm *comm, const void *send, const size_t *send_offsets,
                           const size_t *send_bytes, void *receive, const size_t *receive_offsets,
                           const size_t *receive_bytes, const struct comm_options *options,
                           struct comm_work *work, struct err *err)
{
    assert(send_bytes[comm->rank] == receive_bytes[comm->rank]);
    const struct op_request request = {
        .kind = NCCL_ALL_TO_ALL,
        .name = "an all-to-all",
        .send = send,
        .receive = receive,
        .slices = {send_offsets, send_bytes, receive_offsets, receive_bytes}};
    return start_op(comm, &request, options, work, err);
}

/* Calls that the host communicator handles. */

static int nccl_all_reduce_i64(struct comm *base, int64_t *values, size_t count,
                               enum comm_i64_op op, const struct comm_options *options,
                               struct comm_work *work, struct err *err)
{
    struct comm *host = nccl_of(base)->host;
    return host->ops->all_reduce_i64(host, values, count, op, options, work, err);
}

static int nccl_send(struct comm *base, const void *data, size_t bytes, int to, int tag,
                     const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct comm *host = nccl_of(base)->host;
    return host->ops->send(host, data, bytes, to, tag, options, work, err);
}

static int nccl_receive(struct comm *base, void *data, size_t bytes, int from, int tag,
                        const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct comm *host = nccl_of(base)->host;
    return host->ops->receive(host, data, bytes, from, tag, options, work, err);
}

static void nccl_set_activity(struct comm *comm, const char *activity, uint64_t step,
                              bool may_be_slow)
{
    comm_set_activity(nccl_of(comm)->host, activity, step, may_be_slow);
}

static void nccl_add_tracks(struct comm *comm, struct trace *trace)
{
    comm_add_tracks(nccl_of(comm)->host, trace);
}

static void nccl_describe_library(const struct comm *base, char text[COMM_LIBRARY_BYTES])
{
    static_assert((int)COMM_NCCL_TEXT_BYTES <= (int)COMM_LIBRARY_BYTES, "the text fits");
    (void)base;
    comm_nccl_library(text, NULL);
}

static int nccl_check(struct comm *comm, struct err *err)
{
    return comm_check(nccl_of(comm)->host, err);
}

/* Waiting. */

/* Call with the mutex held. */
static void poll_work(struct comm_work *work, struct err *err)
{
    struct comm_nccl *comm = nccl_of(work->comm);
    struct nccl_op *op = work->state;
    if (op->state != NCCL_DONE)
        nccl_progress(comm->shared);
    if (op->state != NCCL_DONE)
        return;
    work->status = op->status;
    work->done = true;
    work->state = NULL;
    if (op->status && err)
        *err = op->detail;
    nccl_op_release(comm, op);
}

static int nccl_test(struct comm_work *work, bool *ret_done, struct err *err)
{
    if (work->comm->ops != &nccl_ops)
        return work->comm->ops->test(work, ret_done, err);
    struct nccl_shared *shared = nccl_of(work->comm)->shared;
    pthread_mutex_lock(&shared->mutex);
    if (!work->done)
        poll_work(work, err);
    pthread_mutex_unlock(&shared->mutex);
    *ret_done = work->done;
    return work->done ? work->status : 0;
}

static int nccl_wait(struct comm_work *work, struct err *err)
{
    uint64_t since_ns = clock_now_ns();
    bool done = false;
    if (work->comm->ops != &nccl_ops)
        return comm_wait(work->comm, work, err);
    int status = nccl_test(work, &done, err);
    for (; !done; status = nccl_test(work, &done, err))
        sleep_backoff(since_ns);
    return status;
}

/* Aborting, opening and closing. */

static void nccl_abort(struct comm *base)
{
    struct comm_nccl *comm = nccl_of(base);
    struct err reason = {0};
    err_set(&reason, -ECONNABORTED, "the run was ended: rank %d aborted it", base->rank);
    pthread_mutex_lock(&comm->shared->mutex);
    nccl_end_run(comm, &reason);
    pthread_mutex_unlock(&comm->shared->mutex);
    comm->host->ops->abort(comm->host); /* even if it ended on this rank only */
}

void comm_nccl_abort_local(struct comm *base)
{
    struct nccl_shared *shared = nccl_of(base)->shared;
    assert(base->ops == &nccl_ops);
    pthread_mutex_lock(&shared->mutex);
    nccl_abort_local(shared);
    pthread_mutex_unlock(&shared->mutex);
}

static int wait_until_ready(const struct comm_nccl *comm, uint64_t timeout_ns, const char *action,
                            struct err *err)
{
    uint64_t since_ns = clock_now_ns();
    for (;;) {
        ncclResult_t result = ncclSuccess;
        int status = nccl_check_result(
            comm, comm->shared->nccl->CommGetAsyncError(comm->handle, &result), action, err);
        if (!status)
            status = nccl_check_result(comm, result, action, err);
        if (status || result == ncclSuccess)
            return status;
        if (timeout_ns > 0 && clock_now_ns() - since_ns >= timeout_ns)
            break;
        sleep_backoff(since_ns);
    }
    err_set(err, -ETIMEDOUT, "rank %d of %d waited too long for NCCL: %s", comm->base.rank,
            comm->base.ranks, action);
    err_advise(err, "set NCCL_DEBUG=INFO for details, NCCL_SOCKET_IFNAME to choose the network; "
                    "raise the timeout if NCCL is only slow");
    return -ETIMEDOUT;
}

static void disconnect(struct comm_nccl *comm)
{
    const struct nccl_library *nccl = comm->shared->nccl;
    if (!comm->handle)
        return;
    device_cuda_use(comm->shared->device, NULL);
    int status = comm->pending_first
                     ? -EBUSY
                     : nccl_check_result(comm, nccl->CommFinalize(comm->handle), "closing", NULL);
    if (!status)
        status = wait_until_ready(comm, CLOSE_TIMEOUT_NS, "closing", NULL);
    if (status)
        nccl->CommAbort(comm->handle);
    else
        nccl->CommDestroy(comm->handle);
    comm->handle = NULL;
}

static void release_shared(struct nccl_shared *shared)
{
    pthread_mutex_lock(&shared->mutex);
    bool is_last = --shared->comms_count == 0;
    pthread_mutex_unlock(&shared->mutex);
    if (!is_last)
        return;
    pthread_mutex_destroy(&shared->mutex);
    free(shared);
}

static void nccl_close(struct comm *base)
{
    struct comm_nccl *comm = nccl_of(base);
    struct nccl_shared *shared = comm->shared;
    pthread_mutex_lock(&shared->mutex);
    for (struct comm_nccl **link = &shared->comms; *link; link = &(*link)->next)
        if (*link == comm) {
            *link = comm->next;
            break;
        }
    pthread_mutex_unlock(&shared->mutex);
    disconnect(comm);
    nccl_ops_free(comm);
    if (comm->stream)
        shared->device->ops->stream_close(shared->device, comm->stream);
    comm_close(comm->host);
    free(comm);
    release_shared(shared);
}

/* Broadcasts rank 0's id over the host communicator. */
static int broadcast_id(struct comm_nccl *comm, const struct comm_options *options,
                        ncclUniqueId *ret_id, struct err *err)
{
    struct comm *host = comm->host;
    struct comm_work work;
    ncclUniqueId *ids = calloc((size_t)host->ranks, sizeof *ids);
    int status =
        ids ? 0
            : err_set(err, -ENOMEM, "out of memory for a communicator of %d ranks", host->ranks);
    if (!status && host->rank == 0)
        status = nccl_check_result(comm, comm->shared->nccl->GetUniqueId(&ids[0]),
                                   "creating a communicator id", err);
    status = comm_agree(host, status, options, err);
    if (status) {
        free(ids);
        return status;
    }
    status = host->ops->all_gather(host, &ids[host->rank], ids, sizeof *ids, options, &work, err);
    if (!status)
        status = comm_wait(host, &work, err);
    if (status) {
        comm_retain(ids);
        return status;
    }
    *ret_id = ids[0];
    free(ids);
    return 0;
}

/* The deadline covers an entire open or split. */
static struct comm_options connect_options(uint64_t timeout_ns)
{
    return (struct comm_options){.deadline_ns = timeout_ns ? clock_now_ns() + timeout_ns : 0,
                                 .purpose = "connecting with NCCL"};
}

static int connect_ranks(struct comm_nccl *comm, const struct comm_options *options,
                         struct err *err)
{
    struct nccl_shared *shared = comm->shared;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    config.blocking = 0;
    int status = broadcast_id(comm, options, &id, err);
    if (!status)
        status = device_cuda_use(shared->device, err);
    if (!status)
        status = nccl_check_result(comm,
                                   shared->nccl->CommInitRankConfig(&comm->handle, comm->base.ranks,
                                                                    id, comm->base.rank, &config),
                                   "connecting", err);
    if (!status)
        status = wait_until_ready(comm, shared->timeout_ns, "connecting", err);
    return comm_agree(comm->host, status, options, err);
}

/* Takes ownership of host, even on failure. */
static int create_comm(struct nccl_shared *shared, struct comm *host,
                       const struct comm_options *options, struct comm **ret_comm, struct err *err)
{
    struct comm_nccl *comm = calloc(1, sizeof *comm);
    if (!comm) {
        err_set(err, -ENOMEM, "out of memory for a communicator of %d ranks", host->ranks);
        host->ops->abort(host); /* the other ranks are about to connect */
        comm_close(host);
        return -ENOMEM;
    }
    *comm = (struct comm_nccl){.base = {.ops = &nccl_ops,
                                        .rank = host->rank,
                                        .ranks = host->ranks,
                                        .takes_device_memory = true},
                               .shared = shared,
                               .host = host};
    pthread_mutex_lock(&shared->mutex);
    shared->comms_count++;
    pthread_mutex_unlock(&shared->mutex);
    int status = shared->device->ops->stream_open(shared->device, &comm->stream, err);
    status = comm_agree(host, status, options, err);
    if (!status)
        status = connect_ranks(comm, options, err);
    if (status) {
        if (comm->handle)
            shared->nccl->CommAbort(comm->handle);
        comm->handle = NULL;
        nccl_close(&comm->base);
        return status;
    }
    pthread_mutex_lock(&shared->mutex);
    comm->next = shared->comms;
    shared->comms = comm;
    pthread_mutex_unlock(&shared->mutex);
    *ret_comm = &comm->base;
    return 0;
}

static int nccl_split(struct comm *base, int color, int key, struct comm **ret_comm,
                      struct err *err)
{
    struct comm_nccl *comm = nccl_of(base);
    struct comm *part = NULL;
    const struct comm_options options = connect_options(comm->shared->timeout_ns);
    int status = comm->host->ops->split(comm->host, color, key, &part, err);
    if (!status && part)
        return create_comm(comm->shared, part, &options, ret_comm, err);
    if (!status)
        *ret_comm = NULL;
    return status;
}

static const struct comm_ops nccl_ops = {
    .name = "nccl",
    .split = nccl_split,
    .all_gather = nccl_all_gather,
    .reduce_scatter = nccl_reduce_scatter,
    .all_reduce_i64 = nccl_all_reduce_i64,
    .all_to_all = nccl_all_to_all,
    .send = nccl_send,
    .receive = nccl_receive,
    .test = nccl_test,
    .wait = nccl_wait,
    .set_activity = nccl_set_activity,
    .add_tracks = nccl_add_tracks,
    .check = nccl_check,
    .abort = nccl_abort,
    .close = nccl_close,
    .describe_library = nccl_describe_library,
};

/* A library older than the headers would not understand the configuration. */
static int check_version(const struct nccl_library *nccl, struct err *err)
{
    int version = 0;
    if (nccl->GetVersion(&version) == ncclSuccess && version >= NCCL_VERSION_CODE)
        return 0;
    err_set(err, -ENOTSUP, "NCCL is older than the one that millrace was built with");
    err_expected(err, "%d.%d.%d", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
    err_found(err, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    err_advise(err, "put the newer one first in LD_LIBRARY_PATH");
    return -ENOTSUP;
}

static int load_library(const struct nccl_library **ret_library, struct err *err)
{
    int status = nccl_library_load(ret_library, err);
    return status ? status : check_version(*ret_library, err);
}

int comm_nccl_check(struct err *err)
{
    return load_library(&(const struct nccl_library *){NULL}, err);
}

int comm_nccl_library(char text[COMM_NCCL_TEXT_BYTES], struct err *err)
{
    const struct nccl_library *nccl;
    int version = 0;
    int status = load_library(&nccl, err);
    if (status)
        return status;
    nccl->GetVersion(&version);
    snprintf(text, COMM_NCCL_TEXT_BYTES, "NCCL %d.%d.%d", version / 10000, version / 100 % 100,
             version % 100);
    return 0;
}

int comm_nccl_open(struct comm *host, struct device *device, uint64_t timeout_ns,
                   struct comm **ret_comm, struct err *err)
{
    struct comm *part;
    const struct comm_options options = connect_options(timeout_ns);
    struct nccl_shared *shared = calloc(1, sizeof *shared);
    int status = shared ? 0 : err_set(err, -ENOMEM, "out of memory for a communicator");
    if (!status)
        status = load_library(&shared->nccl, err);
    status = comm_agree(host, status, &options, err);
    if (!status)
        status = host->ops->split(host, 0, host->rank, &part, err);
    if (status) {
        free(shared);
        return status;
    }
    shared->device = device;
    shared->timeout_ns = timeout_ns;
    shared->comms_count = 1; /* this function's reference */
    pthread_mutex_init(&shared->mutex, NULL);
    status = create_comm(shared, part, &options, ret_comm, err);
    release_shared(shared);
    return status;
}
