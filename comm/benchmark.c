/*
 * benchmark — see benchmark.h.
 */
#include "comm/benchmark.h"

#include "base/clock.h"
#include "base/os/thread.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { GROWTH_MOST = 16 }; /* from one round of exchanges to the next, at most */

const char *comm_benchmark_name(enum comm_benchmark_what what)
{
    static const char *const names[COMM_BENCHMARK_COUNT] = {
        [COMM_BENCHMARK_ALL_GATHER] = "all-gather",
        [COMM_BENCHMARK_DETERMINISTIC] = "reduce-scatter, canonical",
        [COMM_BENCHMARK_FAST] = "reduce-scatter, fast",
        [COMM_BENCHMARK_ALL_TO_ALL] = "all-to-all",
        [COMM_BENCHMARK_ALL_REDUCE] = "all-reduce, int64",
        [COMM_BENCHMARK_COPY] = "copying memory",
    };
    return names[what];
}

/* Owner thread. */
struct run {
    const struct comm_benchmark_job *job;
    size_t slice_bytes; /* per rank */
    char *send, *receive;
    size_t *offsets, *bytes; /* [ranks] */
};

static size_t ranks_of(const struct run *run)
{
    return (size_t)run->job->comm->ranks;
}

static size_t received_bytes(const struct run *run)
{
    bool is_reduction = run->job->what == COMM_BENCHMARK_ALL_REDUCE;
    return (ranks_of(run) - 1) * (is_reduction ? run->job->bytes : run->slice_bytes);
}

static void copy(const struct run *run, uint64_t number)
{
    size_t bytes = received_bytes(run);
    memcpy(run->receive, run->send, bytes);
    /* keeps the compiler from dropping a copy */
    run->send[number % bytes] ^= run->receive[bytes - 1];
}

static int exchange(const struct run *run, uint64_t number, struct err *err)
{
    struct comm *comm = run->job->comm;
    const struct comm_ops *ops = comm->ops;
    uint64_t timeout_ns = run->job->timeout_ns;
    struct comm_options options = {.deadline_ns = timeout_ns ? clock_now_ns() + timeout_ns : 0,
                                   .what = comm_benchmark_name(run->job->what)};
    struct comm_work work;
    int status = 0;
    switch (run->job->what) {
    case COMM_BENCHMARK_ALL_GATHER:
        status =
            ops->all_gather(comm, run->send, run->receive, run->slice_bytes, &options, &work, err);
        break;
    case COMM_BENCHMARK_DETERMINISTIC:
    case COMM_BENCHMARK_FAST:
        status = ops->reduce_scatter(
            comm, run->send, run->receive, run->slice_bytes / sizeof(float), DTYPE_F32,
            run->job->what == COMM_BENCHMARK_FAST ? COMM_FAST : COMM_DETERMINISTIC, &options, &work,
            err);
        break;
    case COMM_BENCHMARK_ALL_TO_ALL:
        status = ops->all_to_all(comm, run->send, run->offsets, run->bytes, run->receive,
                                 run->offsets, run->bytes, &options, &work, err);
        break;
    case COMM_BENCHMARK_ALL_REDUCE:
        status =
            ops->all_reduce_i64(comm, (int64_t *)(void *)run->send,
                                run->job->bytes / sizeof(int64_t), COMM_MAX, &options, &work, err);
        break;
    case COMM_BENCHMARK_COPY:
    case COMM_BENCHMARK_COUNT:
        copy(run, number);
        return 0;
    }
    return status ? status : comm_wait(comm, &work, err);
}

/* Finds the longest time of all ranks, and whether any of them was asked to stop. */
static int agree(const struct comm_benchmark_job *job, uint64_t *elapsed_ns, struct err *err)
{
    int64_t words[2] = {(int64_t)*elapsed_ns, job->stop && atomic_load(job->stop)};
    struct comm_options options = {
        .deadline_ns = job->timeout_ns ? clock_now_ns() + job->timeout_ns + *elapsed_ns : 0,
        .what = "comparing times"};
    struct comm_work work;
    int status =
        job->comm->ops->all_reduce_i64(job->comm, words, 2, COMM_MAX, &options, &work, err);
    if (!status)
        status = comm_wait(job->comm, &work, err);
    *elapsed_ns = (uint64_t)words[0];
    return !status && words[1] ? err_set(err, -EINTR, "stopped on request") : status;
}

/* Runs rounds of exchanges, more in each, until one is long enough. The first rounds also set up
 * what later ones reuse. */
static int repeat(const struct run *run, struct comm_benchmark *result, struct err *err)
{
    const struct comm_benchmark_job *job = run->job;
    for (uint64_t count = 1;;) {
        uint64_t elapsed_ns = 0;
        int status = agree(job, &elapsed_ns, err); /* all ranks begin together */
        uint64_t began_ns = clock_now_ns();
        for (uint64_t i = 0; i < count && !status; i++)
            status = exchange(run, i, err);
        elapsed_ns = clock_now_ns() - began_ns;
        if (!status)
            status = agree(job, &elapsed_ns, err);
        if (status)
            return status;
        if (count > 1 && elapsed_ns >= job->ns_min) {
            *result = (struct comm_benchmark){received_bytes(run), count, elapsed_ns};
            return 0;
        }
        uint64_t growth = 1 + job->ns_min / (elapsed_ns + 1);
        count *= growth < 2 ? 2 : growth < GROWTH_MOST ? growth : GROWTH_MOST;
    }
}

int comm_benchmark_run(const struct comm_benchmark_job *job, struct comm_benchmark *ret_result,
                       struct err *err)
{
    size_t ranks = (size_t)job->comm->ranks, bytes = (size_t)job->bytes;
    struct run run = {.job = job, .slice_bytes = bytes / ranks / sizeof(int64_t) * sizeof(int64_t)};
    assert(ranks > 1 && bytes >= sizeof(int64_t));
    assert(run.slice_bytes > 0 || job->what == COMM_BENCHMARK_ALL_REDUCE);
    run.send = calloc(1, bytes);
    run.receive = malloc(bytes);
    run.offsets = calloc(ranks, sizeof *run.offsets);
    run.bytes = calloc(ranks, sizeof *run.bytes);
    bool has_all = run.send && run.receive && run.offsets && run.bytes;
    int status =
        has_all ? 0 : err_set(err, -ENOMEM, "out of memory for an exchange of %zu bytes", bytes);
    status = comm_agree(job->comm, status, NULL, err);
    bool is_idle = status != 0; /* nothing is in flight */
    if (!status) {
        memset(run.receive, 0, bytes);
        for (size_t rank = 0; rank < ranks; rank++) {
            run.offsets[rank] = rank * run.slice_bytes;
            run.bytes[rank] = run.slice_bytes;
        }
        status = repeat(&run, ret_result, err);
        /* otherwise work in flight may use the buffers: comm.h */
        is_idle = !status || status == -EINTR;
    }
    void *const memory[] = {run.send, run.receive, run.offsets, run.bytes};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
        if (is_idle)
            free(memory[i]);
        else
            comm_retain(memory[i]);
    }
    return status;
}

/* ---- Waking. ---- */

/* Two threads that take turns: one waits while the other runs. */
struct relay {
    pthread_mutex_t mutex;
    pthread_cond_t passed;
    bool is_theirs, is_over; /* guarded by mutex */
};

static void *catch_and_return(void *argument)
{
    struct relay *relay = argument;
    pthread_mutex_lock(&relay->mutex);
    while (!relay->is_over) {
        if (relay->is_theirs) {
            relay->is_theirs = false;
            pthread_cond_signal(&relay->passed);
        } else {
            pthread_cond_wait(&relay->passed, &relay->mutex);
        }
    }
    pthread_mutex_unlock(&relay->mutex);
    return NULL;
}

static void pass(struct relay *relay)
{
    pthread_mutex_lock(&relay->mutex);
    relay->is_theirs = true;
    pthread_cond_signal(&relay->passed);
    while (relay->is_theirs)
        pthread_cond_wait(&relay->passed, &relay->mutex);
    pthread_mutex_unlock(&relay->mutex);
}

int comm_benchmark_wake(uint64_t ns_min, uint64_t *ret_ns, struct err *err)
{
    struct relay relay = {.mutex = PTHREAD_MUTEX_INITIALIZER, .passed = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    uint64_t wakes = 0, elapsed_ns, began_ns;
    int status = thread_start(&thread, catch_and_return, &relay);
    if (status)
        return err_errno(err, status, "no thread to measure with");
    began_ns = clock_now_ns();
    do {
        pass(&relay);
        wakes += 2;
        elapsed_ns = clock_now_ns() - began_ns;
    } while (elapsed_ns < ns_min);
    pthread_mutex_lock(&relay.mutex);
    relay.is_over = true;
    pthread_cond_signal(&relay.passed);
    pthread_mutex_unlock(&relay.mutex);
    pthread_join(thread, NULL);
    *ret_ns = elapsed_ns / wakes;
    return 0;
}
