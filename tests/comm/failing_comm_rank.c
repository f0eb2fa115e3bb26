/*
 * One rank of a failing run, started by mpi_ends.sh and tcp_ends.sh. Its argument selects the
 * failure. Each rank writes its result to a file and waits for the other ranks' files before it
 * exits, because mpirun ends all ranks when one exits.
 */
#include "tests/comm/rank_result.h"

#include "base/clock.h"
#include "comm/comm_wrapper.h"
#include "comm/ranks/ranks.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct comm *world;

enum { TAG_NEVER_SENT, TAG_NEVER_RECEIVED, TAG_HERE };

static int wait_for_message(int from, int tag, struct err *err)
{
    static char message; /* must remain valid after a failed wait */
    struct comm_work work;
    int status = world->ops->receive(world, &message, 1, from, tag, NULL, &work, err);
    return status ? status : comm_wait(world, &work, err);
}

static int wait_until_aborted(struct err *err)
{
    return wait_for_message(0, TAG_NEVER_SENT, err);
}

/* Joins the reduction, then sends a message to rank 0. The message arrives after this rank's part
 * of the reduction. */
static int join_and_notify_rank0(struct err *err)
{
    static int64_t value;
    static const char message;
    struct comm_work reduced, sent;
    int status = world->ops->all_reduce_i64(world, &value, 1, COMM_SUM, NULL, &reduced, err);
    if (status)
        return status;
    status = world->ops->send(world, &message, 1, 0, TAG_HERE, NULL, &sent, err);
    if (!status)
        status = comm_wait(world, &sent, err);
    int ended = comm_wait(world, &reduced, status ? NULL : err);
    return status ? status : ended;
}

/* Rank 1 does not join the barrier. Only rank 0 has a timeout, which starts when rank 2 arrives. */
static int miss_barrier(struct err *err)
{
    if (world->rank == 1) {
        world->ops->set_activity(world, "data", 7, false);
        return wait_until_aborted(err);
    }
    if (world->rank == 2)
        return join_and_notify_rank0(err);
    int status = wait_for_message(2, TAG_HERE, err);
    struct comm_options options = {.deadline_ns = clock_now_ns() + CLOCK_NS_PER_S / 5,
                                   .purpose = "the gradients of step 7"};
    return status ? status : comm_barrier(world, &options, err);
}

/* Sends messages that no rank receives. They are large because small ones are sent at once. */
static int send_without_receiver(struct err *err)
{
    static char data[1 << 22];
    struct comm_work work;
    struct comm_options options = {.deadline_ns = clock_now_ns() + CLOCK_NS_PER_S / 5,
                                   .purpose = "the weights"};
    if (world->rank != 0)
        return wait_until_aborted(err);
    int status =
        world->ops->send(world, data, sizeof data, 2, TAG_NEVER_RECEIVED, &options, &work, err);
    return status ? status : comm_wait(world, &work, err);
}

/* The last rank aborts a communicator that has no other rank. All operations fail, including later
 * ones. */
static int abort_own_communicator(struct err *err)
{
    struct comm *part;
    struct err later = {0};
    int status = world->ops->split(world, world->rank == world->ranks - 1, 0, &part, err);
    if (status)
        return status;
    if (world->rank == world->ranks - 1)
        part->ops->abort(part);
    status = comm_barrier(world, NULL, err);
    if (comm_barrier(part, NULL, &later) != -ECONNABORTED)
        exit(4);
    comm_close(part);
    return status;
}

/* The last rank aborts; the others poll. The poll that finds the operation ended returns the
 * reason. */
static int abort_while_others_poll(struct err *err)
{
    static int64_t value;
    struct comm_work work;
    bool done = false;
    if (world->rank == world->ranks - 1)
        world->ops->abort(world);
    int status = world->ops->all_reduce_i64(world, &value, 1, COMM_SUM, NULL, &work, err);
    while (!status && !done)
        status = world->ops->test(&work, &done, err);
    return status;
}

static int gather_different_sizes(struct err *err)
{
    static char own[8], all[64];
    struct comm_work work;
    int status =
        world->ops->all_gather(world, own, all, world->rank == 0 ? 8 : 4, NULL, &work, err);
    if (!status)
        status = comm_wait(world, &work, err);
    return status ? status : wait_until_aborted(err);
}

/* Rank 1 calls reduce while the others call gather. */
static int make_different_calls(struct err *err)
{
    static char own[8], all[64];
    static int64_t value;
    struct comm *checked;
    struct comm_options gathering = {.purpose = "the weights"}, reducing = {.purpose = "the norm"};
    struct comm_work work;
    int status = comm_checked_open(world, 0, &checked, err);
    if (!status)
        status = comm_barrier(checked, NULL, err);
    if (!status && world->rank == 1)
        status = checked->ops->all_reduce_i64(checked, &value, 1, COMM_SUM, &reducing, &work, err);
    else if (!status)
        status = checked->ops->all_gather(checked, own, all, sizeof own, &gathering, &work, err);
    comm_close(checked);
    return status;
}

/* The size of each slice depends on the sender's and the receiver's rank. Receivers expect that
 * size, except that rank 2 expects less from rank 1. */
static int expect_different_slices(struct err *err)
{
    static char sent[64], got[64];
    size_t bytes[2][4] = {{0}}, offsets[4];
    struct comm *checked;
    struct comm_options options = {.purpose = "the rows"};
    struct comm_work work;
    size_t rank = (size_t)world->rank;
    int status = comm_checked_open(world, 0, &checked, err);
    for (size_t r = 0; r < (size_t)world->ranks; r++) {
        offsets[r] = 16 * r;
        bytes[0][r] = 3 * rank + r;
        bytes[1][r] = 3 * r + rank;
    }
    /* the first round succeeds */
    for (int round = 0; round < 2 && !status; round++) {
        bytes[1][1] -= (size_t)(round == 1 && rank == 2);
        status = checked->ops->all_to_all(checked, sent, offsets, bytes[0], got, offsets, bytes[1],
                                          &options, &work, err);
        if (!status)
            status = comm_wait(checked, &work, err);
    }
    comm_close(checked);
    return status;
}

/* Rank 1 calls on a different communicator than the others. No call has a deadline. */
static int call_different_communicators(struct err *err)
{
    static char own[8], all[64];
    static int64_t value;
    struct comm *checked, *part = NULL;
    struct comm_options gathering = {.purpose = "the weights"}, reducing = {.purpose = "the norm"};
    struct comm_work work;
    int status = comm_checked_open(world, 0, &checked, err);
    if (!status)
        status = checked->ops->split(checked, 0, checked->rank, &part, err);
    if (!status)
        status = comm_barrier(part, NULL, err);
    if (!status && world->rank == 1)
        status = part->ops->all_reduce_i64(part, &value, 1, COMM_SUM, &reducing, &work, err);
    else if (!status)
        status = checked->ops->all_gather(checked, own, all, sizeof own, &gathering, &work, err);
    comm_close(part);
    comm_close(checked);
    return status;
}

/* Rank 0 computes for longer than the waiting ranks' timeout. */
static int arrive_late_at_checked_barrier(struct err *err)
{
    struct comm *checked, *part = NULL;
    int status = comm_checked_open(world, 0, &checked, err);
    if (!status)
        status = checked->ops->split(checked, 0, checked->rank, &part, err);
    for (int i = 0; !status && world->rank == 0 && i < 8; i++)
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    if (!status)
        status = comm_barrier(part, NULL, err);
    if (!status)
        status = comm_barrier(checked, NULL, err);
    comm_close(part);
    comm_close(checked);
    return status;
}

/* Rank 1 does not join the split. */
static int miss_checked_split(struct err *err)
{
    struct comm *checked, *part = NULL;
    int status = comm_checked_open(world, CLOCK_NS_PER_S / 5, &checked, err);
    if (!status)
        status = world->rank == 1 ? wait_until_aborted(err)
                                  : checked->ops->split(checked, 0, 0, &part, err);
    comm_close(part);
    comm_close(checked);
    return status;
}

/* Only connects the ranks, and succeeds. */
static int connect_only(struct err *err)
{
    return comm_barrier(world, NULL, err);
}

static int die(struct err *err)
{
    if (world->rank == 1)
        raise(SIGKILL);
    return comm_barrier(world, NULL, err);
}

static int leave(struct err *err)
{
    if (world->rank == 1) {
        comm_close(world);
        exit(0);
    }
    return comm_barrier(world, NULL, err);
}

static bool is_stopped(pid_t pid)
{
    char path[40], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        exit(5);
    fclose(file);
    return state == 'T';
}

/* Rank 1 is stopped (SIGSTOP) after it has sent its pid. timeout_ns: the ranks' timeout; 0: rank
 * 0's barrier has a deadline instead. */
static int stop_rank(uint64_t timeout_ns, struct err *err)
{
    static int64_t pid;
    struct comm_work work;
    if (world->rank == 1)
        pid = getpid();
    int status = world->ops->all_reduce_i64(world, &pid, 1, COMM_SUM, NULL, &work, err);
    if (!status)
        status = comm_wait(world, &work, err);
    if (status)
        return status;
    if (world->rank == 1)
        raise(SIGSTOP);
    while (!is_stopped((pid_t)pid))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    bool has_deadline = world->rank == 0 && timeout_ns == 0;
    struct comm_options options = {.deadline_ns =
                                       has_deadline ? clock_now_ns() + CLOCK_NS_PER_S / 5 : 0,
                                   .purpose = "the weights"};
    if (world->rank == 0)
        world->ops->set_timeout(world, timeout_ns);
    status = comm_barrier(world, &options, err);
    /* under MPI, mpirun kills it when it ends the other ranks */
    if (strcmp(world->ops->name, "tcp") == 0)
        kill((pid_t)pid, SIGKILL);
    return status;
}

static int stop_before_deadline(struct err *err)
{
    return stop_rank(0, err);
}

static int stop_without_deadline(struct err *err)
{
    return stop_rank(CLOCK_NS_PER_S / 5, err);
}

/* Rank 1 arrives after many times the timeout but is alive: it answers repeated queries. */
static int arrive_after_timeouts(struct err *err)
{
    const uint64_t timeout_ns = CLOCK_NS_PER_S / 2;
    world->ops->set_timeout(world, timeout_ns);
    for (uint64_t until_ns = clock_now_ns() + 6 * timeout_ns;
         world->rank == 1 && clock_now_ns() < until_ns;)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    int status = comm_barrier(world, NULL, err);
    world->ops->set_timeout(world, 0);
    return status;
}

/* Rank 1 arrives after many times the others' deadline but reports that it is waiting for a
 * disk. */
static int arrive_late_from_disk(struct err *err)
{
    const uint64_t timeout_ns = CLOCK_NS_PER_S / 2;
    world->ops->set_timeout(world, timeout_ns);
    if (world->rank == 1)
        world->ops->set_activity(world, "save", 7, true);
    for (uint64_t until_ns = clock_now_ns() + 6 * timeout_ns;
         world->rank == 1 && clock_now_ns() < until_ns;)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    const struct comm_options options = {.deadline_ns = clock_now_ns() + timeout_ns};
    int status = comm_barrier(world, &options, err);
    world->ops->set_timeout(world, 0);
    return status;
}

/* Rank 1 does not join a split. The split's deadline is the ranks' timeout. */
static int miss_split(struct err *err)
{
    struct comm *part;
    world->ops->set_timeout(world, CLOCK_NS_PER_S / 5);
    return world->rank == 1 ? wait_until_aborted(err) : world->ops->split(world, 0, 0, &part, err);
}

static const char *get_variable(const char *name)
{
    return getenv(name);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(struct err *err);
    } failures[] = {{"late", miss_barrier},
                    {"vain", send_without_receiver},
                    {"abort", abort_own_communicator},
                    {"looked", abort_while_others_poll},
                    {"otherwise", gather_different_sizes},
                    {"checked", make_different_calls},
                    {"slices", expect_different_slices},
                    {"elsewhere", call_different_communicators},
                    {"slow-checked", arrive_late_at_checked_barrier},
                    {"split", miss_checked_split},
                    {"left", leave},
                    {"stopped", stop_before_deadline},
                    {"silent", stop_without_deadline},
                    {"slow", arrive_after_timeouts},
                    {"disk", arrive_late_from_disk},
                    {"unsplit", miss_split},
                    {"meet", connect_only},
                    {"dead", die}};
    struct ranks ranks;
    struct err err = {0};
    if (argc != 2 || ranks_detect(get_variable, &ranks, &err) ||
        ranks_open(&ranks, NULL, &world, &err))
        return 2;
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        if (strcmp(argv[1], failures[i].name) == 0) {
            int status = failures[i].run(&err);
            write_rank_result(world, status, &err);
        }
    }
    comm_close(world);
    return 0;
}
