/*
 * deadlock — see deadlock.h.
 */
#include "comm/deadlock.h"

#include "base/clock.h"
#include "base/os/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PERIOD_NS = 1000000000,
    DEADLOCK_ROUNDS = 5, /* without change; longer than any message can be in flight */
};

/* The call in which a rank's main thread waits. Has no padding. */
struct wait_state {
    uint64_t serial;     /* counts waits on a rank, from 1; 0: not waiting */
    uint64_t ranks;      /* of the communicator */
    uint64_t is_closing; /* bool */
    struct comm_call call;
};

struct deadlock {
    struct comm *comm; /* used by the thread only */
    pthread_t main_thread, thread;
    pthread_mutex_t mutex; /* guards the fields below, except those marked thread only */
    pthread_cond_t close_requested;
    struct wait_state own;
    uint64_t serials_count;
    int status;
    struct err verdict;
    struct wait_state *waits,
        *previous_waits; /* [ranks], of this and the previous round; thread only */
    bool has_failed;     /* thread only */
};

/* ---- The verdict, the same on all ranks. ---- */

static bool is_reached_by_all(const struct wait_state *waits, int ranks,
                              const struct wait_state *wait)
{
    uint64_t arrived = 0;
    for (int r = 0; r < ranks; r++)
        arrived += waits[r].call.communicator_id == wait->call.communicator_id &&
                   waits[r].call.sequence_number == wait->call.sequence_number;
    return arrived == wait->ranks;
}

static bool is_deadlocked(const struct deadlock *deadlock)
{
    int ranks = deadlock->comm->ranks;
    for (int r = 0; r < ranks; r++)
        if (deadlock->waits[r].serial == 0 ||
            deadlock->waits[r].serial != deadlock->previous_waits[r].serial ||
            is_reached_by_all(deadlock->waits, ranks, &deadlock->waits[r]))
            return false;
    return true;
}

static void set_verdict(struct deadlock *deadlock)
{
    const struct wait_state *waits = deadlock->waits;
    char expected[COMM_CALL_LINE_BYTES], found[COMM_CALL_LINE_BYTES];
    struct err *err = &deadlock->verdict;
    int r = 1;
    while (r + 1 < deadlock->comm->ranks &&
           waits[r].call.communicator_id == waits[0].call.communicator_id &&
           waits[r].call.sequence_number == waits[0].call.sequence_number)
        r++; /* a deadlock requires ranks in different calls */
    pthread_mutex_lock(&deadlock->mutex);
    deadlock->status = -EPROTO;
    err_set(err, -EPROTO, "%s", "");
    if (deadlock->comm->rank == 0) {
        comm_call_format(&waits[0].call, expected);
        comm_call_format(&waits[r].call, found);
        err_set(
            err, -EPROTO,
            "ranks do not make the same calls: they wait for each other, rank 0 in call %" PRIu64
            " on a communicator of %" PRIu64 " ranks, rank %d in call %" PRIu64
            " on %s of %" PRIu64,
            waits[0].call.sequence_number, waits[0].ranks, r, waits[r].call.sequence_number,
            waits[r].call.communicator_id == waits[0].call.communicator_id ? "the same communicator"
                                                                           : "another communicator",
            waits[r].ranks);
        err_expected(err, "%s, as on rank 0", expected);
        err_found(err, "%s", found);
    }
    pthread_mutex_unlock(&deadlock->mutex);
}

/* ---- The thread. ---- */

/* Returns false if this rank is closing. */
static bool sleep_and_copy_own_state(struct deadlock *deadlock, struct wait_state *ret_own)
{
    struct timespec until = clock_timespec(clock_now_ns() + PERIOD_NS);
    int status = 0;
    pthread_mutex_lock(&deadlock->mutex);
    while (!deadlock->own.is_closing && status == 0)
        status = pthread_cond_timedwait(&deadlock->close_requested, &deadlock->mutex, &until);
    *ret_own = deadlock->own;
    pthread_mutex_unlock(&deadlock->mutex);
    return !ret_own->is_closing;
}

static int exchange_states(struct deadlock *deadlock)
{
    const struct comm_options options = {.purpose = "the deadlock check"};
    struct comm *comm = deadlock->comm;
    struct comm_work work;
    int status = comm->ops->all_gather(comm, &deadlock->waits[comm->rank], deadlock->waits,
                                       sizeof *deadlock->waits, &options, &work, NULL);
    if (!status)
        status = comm_wait(comm, &work, NULL);
    deadlock->has_failed = status;
    return status;
}

static bool any_rank_is_closing(const struct deadlock *deadlock)
{
    for (int r = 0; r < deadlock->comm->ranks; r++)
        if (deadlock->waits[r].is_closing)
            return true;
    return false;
}

static void *watch_ranks(void *argument)
{
    struct deadlock *deadlock = argument;
    size_t bytes = (size_t)deadlock->comm->ranks * sizeof *deadlock->waits;
    for (int rounds = 0; rounds < DEADLOCK_ROUNDS;) {
        memcpy(deadlock->previous_waits, deadlock->waits, bytes);
        bool stays = sleep_and_copy_own_state(deadlock, &deadlock->waits[deadlock->comm->rank]);
        if (exchange_states(deadlock) || !stays || any_rank_is_closing(deadlock))
            return NULL;
        rounds = is_deadlocked(deadlock) ? rounds + 1 : 0;
    }
    set_verdict(deadlock);
    exchange_states(deadlock); /* all ranks have the verdict before one ends the run */
    deadlock->comm->ops->abort(deadlock->comm);
    return NULL;
}

/* ---- The owner. ---- */

static void free_memory(struct deadlock *deadlock)
{
    pthread_cond_destroy(&deadlock->close_requested);
    pthread_mutex_destroy(&deadlock->mutex);
    free(deadlock->previous_waits);
    if (deadlock->has_failed)
        comm_retain(deadlock->waits); /* other ranks may still write to the buffer */
    else
        free(deadlock->waits);
    free(deadlock);
}

int deadlock_open(struct comm *world, struct deadlock **ret_deadlock, struct err *err)
{
    struct deadlock *deadlock = calloc(1, sizeof *deadlock);
    struct wait_state *waits = calloc((size_t)world->ranks, sizeof *waits);
    struct wait_state *previous = calloc((size_t)world->ranks, sizeof *previous);
    if (!deadlock || !waits || !previous) {
        free(deadlock);
        free(waits);
        free(previous);
        return err_set(err, -ENOMEM, "not enough memory to watch the calls of %d ranks",
                       world->ranks);
    }
    *deadlock = (struct deadlock){
        .main_thread = pthread_self(), .waits = waits, .previous_waits = previous};
    pthread_mutex_init(&deadlock->mutex, NULL);
    thread_cond_init(&deadlock->close_requested);
    int status = world->ops->split(world, 0, world->rank, &deadlock->comm, err);
    if (!status) {
        status = thread_start(&deadlock->thread, watch_ranks, deadlock);
        if (status)
            err_errno(err, status, "could not start a thread to watch the ranks' calls");
    }
    if (status) {
        comm_close(deadlock->comm);
        free_memory(deadlock);
        return status;
    }
    *ret_deadlock = deadlock;
    return 0;
}

void deadlock_close(struct deadlock *deadlock)
{
    if (!deadlock)
        return;
    pthread_mutex_lock(&deadlock->mutex);
    deadlock->own.is_closing = 1;
    pthread_cond_signal(&deadlock->close_requested);
    pthread_mutex_unlock(&deadlock->mutex);
    pthread_join(deadlock->thread, NULL);
    comm_close(deadlock->comm);
    free_memory(deadlock);
}

static bool is_main_thread(const struct deadlock *deadlock)
{
    return deadlock && pthread_equal(deadlock->main_thread, pthread_self());
}

void deadlock_enter(struct deadlock *deadlock, const struct comm_call *call, int ranks)
{
    if (!is_main_thread(deadlock))
        return;
    pthread_mutex_lock(&deadlock->mutex);
    deadlock->own.serial = ++deadlock->serials_count;
    deadlock->own.ranks = (uint64_t)ranks;
    deadlock->own.call = *call;
    pthread_mutex_unlock(&deadlock->mutex);
}

void deadlock_leave(struct deadlock *deadlock)
{
    if (!is_main_thread(deadlock))
        return;
    pthread_mutex_lock(&deadlock->mutex);
    deadlock->own.serial = 0;
    pthread_mutex_unlock(&deadlock->mutex);
}

int deadlock_verdict(struct deadlock *deadlock, struct err *err)
{
    if (!deadlock)
        return 0;
    pthread_mutex_lock(&deadlock->mutex);
    int status = deadlock->status;
    if (status && err)
        *err = deadlock->verdict;
    pthread_mutex_unlock(&deadlock->mutex);
    return status;
}
