/*
 * One rank of a failing run over comm_nccl, started by nccl_ends.sh. Its argument selects
 * the failure. See also failing_comm_rank.c.
 */
#include "base/clock.h"
#include "comm/comm_mpi.h"
#include "comm/comm_wrapper.h"
#include "comm/nccl/comm_nccl.h"
#include "device/device_cuda.h"
#include "tests/comm/rank_result.h"
#include "tests/cuda_on_cpu/queue.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

enum { BYTES = 1 << 20 };

static struct comm *world, *nccl, *second_nccl;
static struct device *device;
static char *memory; /* ranks * BYTES */

static int gather_after(struct device_stream *stream, uint64_t timeout_ns, struct comm_work *work,
                        struct err *err)
{
    const struct comm_options options = {.deadline_ns =
                                             timeout_ns ? clock_now_ns() + timeout_ns : 0,
                                         .purpose = "the weights of step 7",
                                         .stream = stream};
    return nccl->ops->all_gather(nccl, memory + (size_t)nccl->rank * BYTES, memory, BYTES, &options,
                                 work, err);
}

static int gather(uint64_t timeout_ns, struct err *err)
{
    struct comm_work work;
    int status = gather_after(NULL, timeout_ns, &work, err);
    return status ? status : comm_wait(nccl, &work, err);
}

/* Waits on the ranks' communicator for a message that is never sent. */
static int wait_until_aborted(struct err *err)
{
    static char message;
    struct comm_work work;
    int status = world->ops->receive(world, &message, 1, 0, 0, NULL, &work, err);
    return status ? status : comm_wait(world, &work, err);
}

/* Rank 1 never arrives. Only rank 0 has a deadline. */
static int miss_gather(struct err *err)
{
    if (world->rank != 1)
        return gather(world->rank == 0 ? CLOCK_NS_PER_S / 2 : 0, err);
    world->ops->set_activity(world, "data", 7, false);
    return wait_until_aborted(err);
}

static void do_nothing(void *data)
{
    (void)data;
}

/* All ranks arrive, but rank 1's computation never ends, so its data is never sent. */
static int never_finish_computation(struct err *err)
{
    static struct device_stream *stream; /* must remain valid after a failed wait */
    static struct mark *never;
    static struct comm_work work;
    int status = device->ops->stream_open(device, &stream, err);
    if (!status && world->rank == 1 &&
        queue_add_external(device_cuda_stream(stream), (struct queue_work){do_nothing, NULL, NULL},
                           &never) != cudaSuccess)
        status = -EIO;
    if (!status)
        status = gather_after(stream, world->rank == 0 ? CLOCK_NS_PER_S / 2 : 0, &work, err);
    return status ? status : comm_wait(nccl, &work, err);
}

/* The last rank aborts while the others wait. */
static int abort_nccl(struct err *err)
{
    if (world->rank == world->ranks - 1)
        nccl->ops->abort(nccl);
    return gather(0, err);
}

/* The last rank aborts; the others poll. The poll that finds the operation ended returns the
 * reason. */
static int abort_while_others_poll(struct err *err)
{
    static struct comm_work work; /* must remain valid after a failed poll */
    bool done = false;
    if (world->rank == world->ranks - 1)
        nccl->ops->abort(nccl);
    int status = gather_after(NULL, 0, &work, err);
    while (!status && !done)
        status = nccl->ops->test(&work, &done, err);
    return status;
}

/* Rank 1 calls reduce while the others call gather. */
static int make_different_call(struct err *err)
{
    static int64_t value;
    struct comm_work work;
    const struct comm_options options = {.purpose = "the norm"};
    if (world->rank != 1)
        return gather(0, err);
    int status = nccl->ops->all_reduce_i64(nccl, &value, 1, COMM_SUM, &options, &work, err);
    return status ? status : comm_wait(nccl, &work, err);
}

/* Rank 1 fails instead of gathering and reports this through another communicator. The others abort
 * their operations before they free memory, because freeing waits for the whole device. */
static int abort_locally(struct err *err)
{
    static struct comm_work work;
    void *extra;
    if (world->rank == 1)
        return comm_agree(world, err_set(err, -EIO, "the disk failed"), NULL, err);
    int status = device->ops->mem_alloc(device, MEM_DEVICE, BYTES, &extra, err);
    if (!status)
        status = gather_after(NULL, 0, &work, err);
    if (status)
        return status;
    comm_agree(world, 0, NULL, NULL);
    comm_nccl_abort_local(nccl);
    device->ops->mem_free(device, MEM_DEVICE, extra, BYTES);
    return comm_wait(nccl, &work, err);
}

/* Rank 0 aborts operations on two communicators that no other rank has joined. */
static int abort_two_communicators(struct err *err)
{
    static struct comm_work works[2];
    void *extra;
    int status = nccl->ops->split(nccl, 0, nccl->rank, &second_nccl, err);
    if (!status && world->rank != 0)
        status = wait_until_aborted(err);
    if (status)
        return status;
    status =
        device->ops->mem_alloc(device, MEM_DEVICE, 2 * BYTES * (size_t)world->ranks, &extra, err);
    struct comm *both[2] = {nccl, second_nccl};
    for (int i = 0; i < 2 && !status; i++)
        status = both[i]->ops->all_gather(both[i], memory, (char *)extra + i * BYTES * world->ranks,
                                          BYTES, NULL, &works[i], err);
    if (status)
        return status;
    nccl->ops->abort(nccl);
    device->ops->mem_free(device, MEM_DEVICE, extra, 2 * BYTES * (size_t)world->ranks);
    return comm_wait(second_nccl, &works[1], err);
}

/* As when closing, NCCL's abort on one rank waits for the aborts of all ranks. */
static void end_nccl(int status)
{
    if (status == -ECONNABORTED)
        comm_nccl_abort_local(nccl);
    else if (status)
        nccl->ops->abort(nccl);
}

static int die(struct err *err)
{
    if (world->rank == 1)
        raise(SIGKILL);
    return gather(0, err);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(struct err *err);
        bool is_checked;
    } failures[] = {
        {"late", miss_gather, false},           {"stuck", never_finish_computation, false},
        {"abort", abort_nccl, false},           {"looked", abort_while_others_poll, false},
        {"halt", abort_locally, false},         {"two", abort_two_communicators, false},
        {"checked", make_different_call, true}, {"dead", die, false}};
    struct err err = {0};
    struct comm *checked = NULL;
    size_t i = 0;
    while (argc == 2 && i < sizeof failures / sizeof failures[0] &&
           strcmp(argv[1], failures[i].name) != 0)
        i++;
    if (argc != 2 || i == sizeof failures / sizeof failures[0] || comm_mpi_open(NULL, &world, &err))
        return 2;
    int status = device_cuda_open(0, &device, &err);
    if (!status && failures[i].is_checked)
        status = comm_checked_open(world, 0, &checked, &err);
    if (!status)
        status = comm_nccl_open(checked ? checked : world, device, 0, &nccl, &err);
    if (!status)
        status = device->ops->mem_alloc(device, MEM_DEVICE, (size_t)world->ranks * BYTES,
                                        (void **)&memory, &err);
    if (!status)
        status = gather(0, &err); /* the first gather succeeds */
    if (!status)
        status = failures[i].run(&err);
    if (nccl)
        end_nccl(status);
    write_rank_result(world, status, &err);
    comm_close(second_nccl);
    comm_close(nccl);
    comm_close(checked);
    comm_close(world);
    return 0;
}
