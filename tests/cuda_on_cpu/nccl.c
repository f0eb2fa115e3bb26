/*
 * nccl — the functions of nccl.h that millrace uses, for tests on the CPU. They communicate between
 * processes, on one thread per communicator, in the order of the shim's streams.
 *
 * As with a real non-blocking communicator, a group may reach its stream only after several calls
 * of ncclCommGetAsyncError. Using a communicator that is still busy is a violation. If another rank
 * is gone, a running group never ends until it is aborted. An abort waits until the other ranks
 * have also ended theirs. Aborting while another communicator of the process has work is a
 * violation, unless both are aborted in one group. Supports only what millrace uses: non-blocking
 * communicators, one per group, and bytes or sums of floats.
 */
#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/grid.h"
#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/nccl_wire.h"
#include "tests/cuda_on_cpu/queue.h"
#include "tests/cuda_on_cpu/violation.h"

#include "base/os/thread.h"

#include <nccl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    MOVES_MAX = 256,
    ABORTS_MAX = 16,
    DELAYS_MAX = 4, /* a group returns ncclInProgress fewer times than this */
};

/* The work of one group, done when its stream reaches it. */
struct group {
    struct group *next;
    ncclComm_t comm;
    struct mark *mark;
    struct nccl_move moves[MOVES_MAX];
    size_t count;
    char *own_target; /* destination of this rank's own bytes; NULL: none */
    const char *own_source;
    size_t own_bytes;
    char *terms; /* for a sum: [ranks] slices; NULL: none */
    void *sum;
    size_t elements;
    ncclDataType_t type;
};

struct ncclComm {
    int rank, ranks;
    uint64_t id;
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    ncclResult_t state;         /* guarded by mutex, like all members below */
    struct group *first, *last; /* ready for the thread to move their data */
    struct group *held_group;   /* ended by the caller, but not queued on its stream yet */
    cudaStream_t held_stream;
    int delays_left, groups_left; /* polls until the held group is queued; unfinished groups */
    uint64_t generator;
    /* is_leaving: with the other ranks; has_ended: streams have not reached the remaining groups */
    bool finalized, is_leaving, quit, has_ended;
};

/* Of the calling thread. */
static _Thread_local struct {
    int depth;
    ncclComm_t comm;
    cudaStream_t stream;
    struct group *group;
    ncclComm_t aborts[ABORTS_MAX];
    int aborts_count;
} open_group;

static atomic_int groups_count; /* groups of all communicators that have not ended */

static void *abort_if_null(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static size_t type_bytes(ncclDataType_t type)
{
    return type == ncclInt8 ? 1 : type == ncclFloat32 ? 4 : 8;
}

/* Runs on a communicator's thread. */

static void add_terms(const struct group *group)
{
    size_t bytes = group->elements * type_bytes(group->type);
    memcpy(group->sum, group->terms, bytes);
    for (int r = 1; r < group->comm->ranks; r++) {
        const char *term = group->terms + (size_t)r * bytes;
        for (size_t i = 0; i < group->elements; i++)
            if (group->type == ncclFloat32)
                ((float *)group->sum)[i] += ((const float *)(const void *)term)[i];
            else
                ((double *)group->sum)[i] += ((const double *)(const void *)term)[i];
    }
}

static int run_group(struct nccl_wire *wire, struct group *group)
{
    memory_open();
    int status = nccl_wire_move(wire, group->moves, group->count, &group->comm->stop);
    if (!status && group->own_target)
        memmove(group->own_target, group->own_source, group->own_bytes);
    if (!status && group->terms)
        add_terms(group);
    memory_close();
    return status;
}

static void end_group(struct group *group)
{
    queue_mark_reached(group->mark);
    free(group->terms);
    free(group);
}

/* The caller holds the mutex. */
static void change_groups_count(ncclComm_t comm, int count)
{
    shim_add_spinning_comms((comm->groups_left + count > 0) - (comm->groups_left > 0));
    comm->groups_left += count;
    atomic_fetch_add(&groups_count, count);
}

/* Runs all groups that their streams have reached, one after another. The caller holds the
 * mutex. */
static void serve(ncclComm_t comm, struct nccl_wire *wire)
{
    while (!comm->quit) {
        struct group *group = comm->first;
        if (!group || (comm->state != ncclSuccess && comm->state != ncclInProgress)) {
            pthread_cond_wait(&comm->changed, &comm->mutex);
            continue;
        }
        comm->first = group->next;
        if (!comm->first)
            comm->last = NULL;
        pthread_mutex_unlock(&comm->mutex);
        int status = run_group(wire, group);
        pthread_mutex_lock(&comm->mutex);
        if (status) { /* like a kernel, waits forever */
            group->next = comm->first;
            comm->first = group;
            comm->last = comm->last ? comm->last : group;
            comm->state = ncclRemoteError;
            continue;
        }
        change_groups_count(comm, -1);
        pthread_mutex_unlock(&comm->mutex);
        end_group(group);
        pthread_mutex_lock(&comm->mutex);
    }
}

static void *run_comm(void *argument)
{
    ncclComm_t comm = argument;
    struct nccl_wire *wire = NULL;
    int status = nccl_wire_open(comm->id, comm->rank, comm->ranks, &comm->stop, &wire);
    pthread_mutex_lock(&comm->mutex);
    comm->state = status ? ncclSystemError : ncclSuccess;
    serve(comm, wire);
    bool leaves = comm->is_leaving;
    pthread_mutex_unlock(&comm->mutex);
    if (leaves)
        nccl_wire_leave(wire);
    nccl_wire_close(wire);
    return NULL;
}

static void free_comm(ncclComm_t comm)
{
    pthread_cond_destroy(&comm->changed);
    pthread_mutex_destroy(&comm->mutex);
    free(comm);
}

/* For a communicator that was aborted before its stream reached the group. The caller holds the
 * mutex. */
static void skip_group_after_end(ncclComm_t comm, struct group *group)
{
    bool is_last = --comm->groups_left == 0;
    pthread_mutex_unlock(&comm->mutex);
    end_group(group);
    if (is_last)
        free_comm(comm);
}

/* Called on the shim's thread when the stream has reached the group. */
static void on_group_reached(void *data)
{
    struct group *group = data;
    ncclComm_t comm = group->comm;
    pthread_mutex_lock(&comm->mutex);
    if (comm->has_ended) {
        skip_group_after_end(comm, group);
        return;
    }
    group->next = NULL;
    if (comm->last)
        comm->last->next = group;
    else
        comm->first = group;
    comm->last = group;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->mutex);
}

/* Communicators. */

static int library_version = NCCL_VERSION_CODE;

void shim_set_nccl(int version)
{
    library_version = version ? version : NCCL_VERSION_CODE;
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = library_version;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclRemoteError ? "remote process exited or there was a network error"
                                     : "another error of the NCCL stand-in";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    *id = (ncclUniqueId){{0}};
    return getrandom(id, sizeof(uint64_t), 0) == sizeof(uint64_t) ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    if (config->blocking != 0 || rank < 0 || rank >= ranks)
        return ncclInvalidArgument;
    ncclComm_t made = abort_if_null(calloc(1, sizeof *made));
    made->rank = rank;
    made->ranks = ranks;
    memcpy(&made->id, &id, sizeof made->id);
    made->generator = made->id + (uint64_t)rank;
    made->state = ncclInProgress;
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->changed, NULL);
    if (thread_start(&made->thread, run_comm, made))
        abort();
    *comm = made;
    return ncclInProgress;
}

/* Queues a held group on its stream once it has been polled often enough. The caller holds the
 * mutex, which is released while queueing. */
static void queue_held_group(ncclComm_t comm)
{
    struct group *group = comm->held_group;
    comm->held_group = NULL;
    pthread_mutex_unlock(&comm->mutex);
    const struct queue_work work = {on_group_reached, NULL, group};
    if (queue_add_external(comm->held_stream, work, &group->mark) != cudaSuccess)
        shim_violation("NCCL: could not queue work on a stream");
    pthread_mutex_lock(&comm->mutex);
    comm->state = comm->state == ncclInProgress ? ncclSuccess : comm->state;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    pthread_mutex_lock(&comm->mutex);
    if (comm->held_group && comm->delays_left-- == 0)
        queue_held_group(comm);
    if (comm->finalized && comm->groups_left == 0 && comm->state == ncclInProgress)
        comm->state = ncclSuccess;
    *error = comm->state;
    pthread_mutex_unlock(&comm->mutex);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->mutex);
    if (comm->state == ncclInProgress)
        shim_violation("NCCL: a communicator is finalized before its earlier calls are done");
    comm->finalized = true;
    comm->state = ncclInProgress;
    pthread_mutex_unlock(&comm->mutex);
    return ncclInProgress;
}

static void drop_group(ncclComm_t comm, struct group *group)
{
    change_groups_count(comm, -1);
    if (group->mark) {
        end_group(group);
    } else {
        free(group->terms);
        free(group);
    }
}

static void start_ending(ncclComm_t comm, bool leaves)
{
    atomic_store(&comm->stop, true);
    pthread_mutex_lock(&comm->mutex);
    comm->is_leaving = leaves;
    comm->quit = true;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->mutex);
}

/* Drops the groups that have not run, so that waits on their streams return. */
static void end_comm(ncclComm_t comm)
{
    struct group *next;
    pthread_join(comm->thread, NULL);
    pthread_mutex_lock(&comm->mutex);
    if (comm->held_group)
        drop_group(comm, comm->held_group);
    for (struct group *group = comm->first; group; group = next) {
        next = group->next;
        drop_group(comm, group);
    }
    comm->has_ended = true;
    shim_add_spinning_comms(-(comm->groups_left > 0));
    atomic_fetch_sub(&groups_count, comm->groups_left);
    bool is_last = comm->groups_left == 0;
    pthread_mutex_unlock(&comm->mutex);
    if (is_last)
        free_comm(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (!comm->finalized || comm->state != ncclSuccess || comm->groups_left > 0)
        shim_violation("NCCL: a communicator is destroyed before it is finalized");
    start_ending(comm, false);
    end_comm(comm);
    return ncclSuccess;
}

/* Groups. */

ncclResult_t ncclGroupStart(void); /* nccl.h declares these two without a C prototype */
ncclResult_t ncclGroupEnd(void);

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (open_group.aborts_count == ABORTS_MAX)
        shim_violation("NCCL: more than %d aborts in a group", ABORTS_MAX);
    ncclGroupStart();
    open_group.aborts[open_group.aborts_count++] = comm;
    return ncclGroupEnd();
}

/* Aborts the communicators in the group that is ending. */
static void abort_comms(void)
{
    int count = open_group.aborts_count, own_groups = 0;
    open_group.aborts_count = 0;
    for (int i = 0; i < count; i++) {
        pthread_mutex_lock(&open_group.aborts[i]->mutex);
        own_groups += open_group.aborts[i]->groups_left;
        pthread_mutex_unlock(&open_group.aborts[i]->mutex);
    }
    if (count > 0 && atomic_load(&groups_count) > own_groups)
        shim_violation(
            "NCCL: an abort while another communicator has work: its freeing waits for the device");
    for (int i = 0; i < count; i++)
        start_ending(open_group.aborts[i], true);
    for (int i = 0; i < count; i++)
        end_comm(open_group.aborts[i]);
}

ncclResult_t ncclGroupStart(void)
{
    open_group.depth++;
    return ncclSuccess;
}

/* Returns the group that the next operation joins. */
static struct group *join_open_group(ncclComm_t comm, cudaStream_t stream)
{
    if (open_group.group) {
        if (open_group.comm != comm || open_group.stream != stream)
            shim_violation("NCCL: a group of more than one communicator or stream");
        return open_group.group;
    }
    pthread_mutex_lock(&comm->mutex);
    if (comm->state == ncclInProgress)
        shim_violation("NCCL: a communicator is used before its earlier calls are done");
    change_groups_count(comm, 1);
    pthread_mutex_unlock(&comm->mutex);
    open_group.group = abort_if_null(calloc(1, sizeof *open_group.group));
    open_group.group->comm = open_group.comm = comm;
    open_group.stream = stream;
    return open_group.group;
}

ncclResult_t ncclGroupEnd(void)
{
    struct group *group = open_group.group;
    ncclComm_t comm = open_group.comm;
    if (--open_group.depth > 0)
        return ncclSuccess;
    abort_comms();
    if (!group)
        return ncclSuccess;
    open_group.group = NULL;
    pthread_mutex_lock(&comm->mutex);
    comm->generator =
        comm->generator * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    comm->held_group = group;
    comm->held_stream = open_group.stream;
    comm->delays_left = (int)(comm->generator >> 33) % DELAYS_MAX - 1;
    if (comm->state == ncclSuccess)
        comm->state = ncclInProgress;
    if (comm->delays_left < 0)
        queue_held_group(comm);
    ncclResult_t state = comm->state;
    pthread_mutex_unlock(&comm->mutex);
    return state;
}

static void add_move(struct group *group, struct nccl_move move)
{
    if (group->count == MOVES_MAX)
        shim_violation("NCCL: more than %d messages in a group", MOVES_MAX);
    group->moves[group->count++] = move;
}

static void check_memory(const void *data, size_t bytes)
{
    if (bytes > 0 && memory_kind_of(data, bytes, "a message of NCCL") == MEMORY_PAGEABLE)
        shim_violation("NCCL: a message is in memory that the device can't reach");
}

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t stream)
{
    check_memory(data, count * type_bytes(type));
    ncclGroupStart();
    add_move(join_open_group(comm, stream), (struct nccl_move){.peer = to,
                                                               .is_send = true,
                                                               .data = (char *)(uintptr_t)data,
                                                               .bytes = count * type_bytes(type)});
    return ncclGroupEnd();
}

ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int from, ncclComm_t comm,
                      cudaStream_t stream)
{
    check_memory(data, count * type_bytes(type));
    ncclGroupStart();
    add_move(join_open_group(comm, stream),
             (struct nccl_move){.peer = from, .data = data, .bytes = count * type_bytes(type)});
    return ncclGroupEnd();
}

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * type_bytes(type);
    ncclGroupStart();
    struct group *group = join_open_group(comm, stream);
    for (int r = 0; r < comm->ranks; r++)
        if (r != comm->rank) {
            ncclSend(send, count, type, r, comm, stream);
            ncclRecv((char *)receive + (size_t)r * bytes, count, type, r, comm, stream);
        }
    group->own_target = (char *)receive + (size_t)comm->rank * bytes;
    group->own_source = send;
    group->own_bytes = bytes;
    return ncclGroupEnd();
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * type_bytes(type);
    if (op != ncclSum)
        return ncclInvalidArgument;
    ncclGroupStart();
    struct group *group = join_open_group(comm, stream);
    group->terms = abort_if_null(malloc((size_t)comm->ranks * bytes + 1));
    for (int r = 0; r < comm->ranks; r++)
        if (r != comm->rank) {
            ncclSend((const char *)send + (size_t)r * bytes, count, type, r, comm, stream);
            add_move(group, (struct nccl_move){.peer = r,
                                               .data = group->terms + (size_t)r * bytes,
                                               .bytes = bytes});
        }
    group->own_target = group->terms + (size_t)comm->rank * bytes;
    group->own_source = (const char *)send + (size_t)comm->rank * bytes;
    group->own_bytes = bytes;
    group->sum = receive;
    group->elements = count;
    group->type = type;
    return ncclGroupEnd();
}
