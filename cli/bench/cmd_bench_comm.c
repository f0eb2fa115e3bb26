/*
 * cmd_bench_comm — `millrace bench comm`: measures how fast ranks exchange data, and compares it
 * with the limits of the machine.
 *
 * The limit of an exchange is the time to copy the received bytes on all ranks at once, plus two
 * thread wake-ups, because an exchange runs on its own thread.
 */
#include "base/clock.h"
#include "base/os/thread.h"
#include "base/os/thread_pool.h"
#include "cli/core/output.h"
#include "cli/core/signals.h"
#include "cli/ranks/local_ranks.h"
#include "cli/ranks/rank_session.h"
#include "cli/verbs/verbs.h"
#include "comm/ranks/ranks.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MEASUREMENT_NS_MIN = 1000000,
    SMALLEST_BYTES = 4 << 10,
    LARGEST_BYTES = 1 << 30,
    SIZE_RATIO = 16, /* between successive sizes */
    RANKS_MAX = 512, /* each gets 8 bytes of the smallest size */
    MEASUREMENTS_MAX = 64,
    WAKES_PER_EXCHANGE = 2, /* MPI's thread, and the waiting thread */
    ROUND_GROWTH_MAX = 16,  /* between rounds of exchanges */
};
#define TIMEOUT_NS (60 * CLOCK_NS_PER_S)

struct bench_comm_args {
    struct common_args common;
    uint64_t ranks, size_bytes, measurement_ns;
};

#define AT(member) offsetof(struct bench_comm_args, member)
static const struct option option_rows[] = {
    {"ranks", 'n', OPTION_COUNT, AT(ranks), "N", "2",
     "number of processes to start with mpirun; ignored under a launcher", .min = 2,
     .max = RANKS_MAX},
    {"size", 0, OPTION_SIZE, AT(size_bytes), "SIZE", "16MiB",
     "total size of the largest exchange; sizes fall by a factor of 16 to 4KiB"},
    {"seconds", 0, OPTION_DURATION, AT(measurement_ns), "DURATION", "200ms",
     "minimum time per measurement"},
};

enum operation {
    ALL_GATHER,
    DETERMINISTIC, /* reduce_scatter of F32, like FAST */
    FAST,
    ALL_TO_ALL,
    ALL_REDUCE, /* of int64 */
    COPY,       /* the limit */
};

static const char *const operation_names[] = {
    [ALL_GATHER] = "all-gather",        [DETERMINISTIC] = "reduce-scatter, canonical",
    [FAST] = "reduce-scatter, fast",    [ALL_TO_ALL] = "all-to-all",
    [ALL_REDUCE] = "all-reduce, int64", [COPY] = "copying memory",
};

struct measurement {
    uint64_t size_bytes;
    enum operation operation;
    uint64_t received_bytes; /* by each rank from others, per exchange */
    double seconds;          /* per exchange */
    double limit_seconds;
};

struct bench {
    const struct invocation *invocation;
    const struct bench_comm_args *args;
    struct comm *comm;
    const atomic_int *stop;
    uint64_t wake_ns;
    struct measurement measurements[MEASUREMENTS_MAX];
    size_t measurements_count;
};

struct exchange {
    const struct bench *bench;
    enum operation operation;
    size_t size_bytes;  /* all slices together; for an all-reduce, one rank's values */
    size_t slice_bytes; /* per rank */
    size_t received_bytes;
    char *send, *receive;
    size_t *offsets, *bytes; /* [ranks] */
};

static void copy(const struct exchange *exchange, uint64_t number)
{
    memcpy(exchange->receive, exchange->send, exchange->received_bytes);
    /* keeps the compiler from removing the copy */
    exchange->send[number % exchange->received_bytes] ^=
        exchange->receive[exchange->received_bytes - 1];
}

static int run_exchange(const struct exchange *exchange, uint64_t number, struct err *err)
{
    struct comm *comm = exchange->bench->comm;
    const struct comm_ops *ops = comm->ops;
    const struct comm_options options = {.deadline_ns = clock_now_ns() + TIMEOUT_NS,
                                         .purpose = operation_names[exchange->operation]};
    struct comm_work work;
    int status = 0;
    switch (exchange->operation) {
    case ALL_GATHER:
        status = ops->all_gather(comm, exchange->send, exchange->receive, exchange->slice_bytes,
                                 &options, &work, err);
        break;
    case DETERMINISTIC:
    case FAST:
        status = ops->reduce_scatter(comm, exchange->send, exchange->receive,
                                     exchange->slice_bytes / sizeof(float), DTYPE_F32,
                                     exchange->operation == FAST ? COMM_FAST : COMM_DETERMINISTIC,
                                     &options, &work, err);
        break;
    case ALL_TO_ALL:
        status = ops->all_to_all(comm, exchange->send, exchange->offsets, exchange->bytes,
                                 exchange->receive, exchange->offsets, exchange->bytes, &options,
                                 &work, err);
        break;
    case ALL_REDUCE:
        status = ops->all_reduce_i64(comm, (int64_t *)(void *)exchange->send,
                                     exchange->size_bytes / sizeof(int64_t), COMM_MAX, &options,
                                     &work, err);
        break;
    case COPY:
        copy(exchange, number);
        return 0;
    }
    return status ? status : comm_wait(comm, &work, err);
}

/* Replaces *elapsed_ns with its maximum over ranks. -EINTR: a rank received a stop request. */
static int reduce_longest_time(const struct bench *bench, uint64_t *elapsed_ns, struct err *err)
{
    int64_t values[2] = {(int64_t)*elapsed_ns, atomic_load(bench->stop) != 0};
    const struct comm_options options = {.deadline_ns = clock_now_ns() + TIMEOUT_NS + *elapsed_ns,
                                         .purpose = "comparing times"};
    struct comm *comm = bench->comm;
    struct comm_work work;
    int status = comm->ops->all_reduce_i64(comm, values, 2, COMM_MAX, &options, &work, err);
    if (!status)
        status = comm_wait(comm, &work, err);
    *elapsed_ns = (uint64_t)values[0];
    return !status && values[1] ? err_set(err, -EINTR, "stopped on request") : status;
}

/* Runs growing rounds of exchanges until a round takes long enough on the slowest rank. The first
 * rounds are the warm-up. */
static int time_exchanges(const struct exchange *exchange, double *ret_seconds, struct err *err)
{
    uint64_t ns_min = exchange->bench->args->measurement_ns;
    for (uint64_t count = 1;;) {
        uint64_t elapsed_ns = 0;
        int status =
            reduce_longest_time(exchange->bench, &elapsed_ns, err); /* all ranks begin together */
        uint64_t began_ns = clock_now_ns();
        for (uint64_t i = 0; i < count && !status; i++)
            status = run_exchange(exchange, i, err);
        elapsed_ns = clock_now_ns() - began_ns;
        if (!status)
            status = reduce_longest_time(exchange->bench, &elapsed_ns, err);
        if (status)
            return status;
        if (count > 1 && elapsed_ns >= ns_min) {
            *ret_seconds = clock_seconds(elapsed_ns) / (double)count;
            return 0;
        }
        uint64_t growth = 1 + ns_min / (elapsed_ns + 1);
        count *= growth < 2 ? 2 : growth < ROUND_GROWTH_MAX ? growth : ROUND_GROWTH_MAX;
    }
}

static int measure_exchange(const struct bench *bench, struct measurement *m, struct err *err)
{
    size_t ranks = (size_t)bench->comm->ranks, bytes = (size_t)m->size_bytes;
    size_t slice_bytes = bytes / ranks / sizeof(int64_t) * sizeof(int64_t);
    assert(slice_bytes > 0 || m->operation == ALL_REDUCE);
    m->received_bytes = (ranks - 1) * (m->operation == ALL_REDUCE ? bytes : slice_bytes);
    struct exchange exchange = {.bench = bench,
                                .operation = m->operation,
                                .size_bytes = bytes,
                                .slice_bytes = slice_bytes,
                                .received_bytes = (size_t)m->received_bytes,
                                .send = calloc(1, bytes),
                                .receive = malloc(bytes),
                                .offsets = calloc(ranks, sizeof *exchange.offsets),
                                .bytes = calloc(ranks, sizeof *exchange.bytes)};
    bool has_memory = exchange.send && exchange.receive && exchange.offsets && exchange.bytes;
    int status =
        has_memory ? 0 : err_set(err, -ENOMEM, "out of memory for an exchange of %zu bytes", bytes);
    status = comm_agree(bench->comm, status, NULL, err);
    bool is_idle = status != 0; /* nothing is in flight */
    if (!status) {
        memset(exchange.receive, 0, bytes);
        for (size_t rank = 0; rank < ranks; rank++) {
            exchange.offsets[rank] = rank * slice_bytes;
            exchange.bytes[rank] = slice_bytes;
        }
        status = time_exchanges(&exchange, &m->seconds, err);
        is_idle =
            !status || status == -EINTR; /* else work in flight may use the buffers (comm.h) */
    }
    void *const memory[] = {exchange.send, exchange.receive, exchange.offsets, exchange.bytes};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
        if (is_idle)
            free(memory[i]);
        else
            comm_retain(memory[i]);
    }
    return status;
}

/* Two threads that wake each other in turn. */
struct ping_pong {
    pthread_mutex_t mutex;
    pthread_cond_t turn_changed;
    bool is_pinged, is_over; /* guarded by mutex */
};

static void *answer_pings(void *argument)
{
    struct ping_pong *ping_pong = argument;
    pthread_mutex_lock(&ping_pong->mutex);
    while (!ping_pong->is_over) {
        if (ping_pong->is_pinged) {
            ping_pong->is_pinged = false;
            pthread_cond_signal(&ping_pong->turn_changed);
        } else {
            pthread_cond_wait(&ping_pong->turn_changed, &ping_pong->mutex);
        }
    }
    pthread_mutex_unlock(&ping_pong->mutex);
    return NULL;
}

static void ping_and_wait(struct ping_pong *ping_pong)
{
    pthread_mutex_lock(&ping_pong->mutex);
    ping_pong->is_pinged = true;
    pthread_cond_signal(&ping_pong->turn_changed);
    while (ping_pong->is_pinged)
        pthread_cond_wait(&ping_pong->turn_changed, &ping_pong->mutex);
    pthread_mutex_unlock(&ping_pong->mutex);
}

static int measure_wake(uint64_t ns_min, uint64_t *ret_ns, struct err *err)
{
    struct ping_pong ping_pong = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                                  .turn_changed = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    uint64_t wakes = 0, elapsed_ns, began_ns;
    int status = thread_start(&thread, answer_pings, &ping_pong);
    if (status)
        return err_errno(err, status, "could not start a thread");
    began_ns = clock_now_ns();
    do {
        ping_and_wait(&ping_pong);
        wakes += 2;
        elapsed_ns = clock_now_ns() - began_ns;
    } while (elapsed_ns < ns_min);
    pthread_mutex_lock(&ping_pong.mutex);
    ping_pong.is_over = true;
    pthread_cond_signal(&ping_pong.turn_changed);
    pthread_mutex_unlock(&ping_pong.mutex);
    pthread_join(thread, NULL);
    *ret_ns = elapsed_ns / wakes;
    return 0;
}

static int add_measurement(struct bench *bench, enum operation operation, uint64_t bytes,
                           double limit_seconds, struct err *err)
{
    assert(bench->measurements_count < MEASUREMENTS_MAX);
    struct measurement *m = &bench->measurements[bench->measurements_count];
    *m = (struct measurement){
        .size_bytes = bytes, .operation = operation, .limit_seconds = limit_seconds};
    int status = measure_exchange(bench, m, err);
    bench->measurements_count += !status;
    progress_update(bench->invocation->console, bench->measurements_count, 0);
    return status;
}

static int measure_size(struct bench *bench, uint64_t bytes, struct err *err)
{
    struct measurement memory_copy = {.size_bytes = bytes, .operation = COPY};
    int status = measure_exchange(bench, &memory_copy, err);
    double limit_seconds = WAKES_PER_EXCHANGE * clock_seconds(bench->wake_ns) + memory_copy.seconds;
    for (enum operation operation = ALL_GATHER; operation <= ALL_TO_ALL && !status; operation++)
        status = add_measurement(bench, operation, bytes, limit_seconds, err);
    return status;
}

static int measure(struct bench *bench, struct err *err)
{
    int status = measure_wake(bench->args->measurement_ns, &bench->wake_ns, err);
    double wakes_seconds = WAKES_PER_EXCHANGE * clock_seconds(bench->wake_ns);
    if (!status)
        status = add_measurement(bench, ALL_REDUCE, sizeof(int64_t), wakes_seconds, err);
    if (!status)
        status = add_measurement(bench, ALL_REDUCE, 64 * sizeof(int64_t), wakes_seconds, err);
    for (uint64_t bytes = bench->args->size_bytes; bytes >= SMALLEST_BYTES && !status;
         bytes /= SIZE_RATIO)
        status = measure_size(bench, bytes, err);
    return status;
}

static void print_measurement(struct jsonx_writer *json, const struct measurement *m)
{
    jsonx_begin_object(json, NULL);
    jsonx_write_string(json, "what", operation_names[m->operation]);
    jsonx_write_u64(json, "exchange_bytes", m->size_bytes);
    jsonx_write_f64(json, "mean_seconds", m->seconds);
    jsonx_write_f64(json, "received_bytes_per_second", (double)m->received_bytes / m->seconds);
    jsonx_write_f64(json, "limit_seconds", m->limit_seconds);
    jsonx_write_f64(json, "of_limit_fraction", m->limit_seconds / m->seconds);
    jsonx_end_object(json);
}

static int print(const struct bench *bench, struct err *err)
{
    struct output output;
    struct jsonx_writer *json = &output.json;
    char library[RANKS_MPI_LIBRARY_BYTES];
    int status = ranks_mpi_library(library, err);
    if (status)
        return status;
    output_begin(&output);
    jsonx_write_string(json, "library", library);
    jsonx_write_u64(json, "ranks_count", (uint64_t)bench->comm->ranks);
    jsonx_write_u64(json, "cpus_count", thread_pool_cpu_count());
    jsonx_write_f64(json, "wake_a_thread_seconds", clock_seconds(bench->wake_ns));
    jsonx_begin_array(json, "measurements");
    for (size_t i = 0; i < bench->measurements_count; i++)
        print_measurement(json, &bench->measurements[i]);
    jsonx_end_array(json);
    return output_end(&output, bench->args->common.json, stdout, err);
}

static int check_usage(const struct bench_comm_args *args, struct err *err)
{
    if (args->size_bytes >= SMALLEST_BYTES && args->size_bytes <= LARGEST_BYTES &&
        args->size_bytes % sizeof(int64_t) == 0 && args->measurement_ns >= MEASUREMENT_NS_MIN)
        return 0;
    err_set(err, -EINVAL, "cannot measure with these options");
    err_expected(err, "--size a multiple of 8 from 4KiB to 1GiB, --seconds at least 1ms");
    return -EINVAL;
}

static int check_ranks(const struct comm *comm, struct err *err)
{
    if (comm->ranks > 1 && comm->ranks <= RANKS_MAX)
        return 0;
    err_set(err, -EINVAL, "cannot measure exchanges on this number of ranks");
    err_expected(err, "2 to %d", RANKS_MAX);
    err_found(err, "%d", comm->ranks);
    return -EINVAL;
}

static int run(const struct invocation *invocation, struct err *err)
{
    struct bench bench = {.invocation = invocation, .args = invocation->args};
    bool is_done;
    bench.stop = signals_install();
    int status = check_usage(bench.args, err);
    if (!status)
        status = local_ranks_run(invocation, (unsigned)bench.args->ranks, &is_done, err);
    if (status || is_done)
        return status;
    status = rank_session_open(invocation, &bench.comm, NULL, err);
    if (status)
        return status;
    status = check_ranks(bench.comm, err);
    progress_begin(invocation->console, "measuring", PROGRESS_ITEMS);
    if (!status)
        status = measure(&bench, err);
    progress_end(invocation->console);
    if (!status && bench.comm->rank == 0)
        status = print(&bench, err);
    return rank_session_close(invocation, bench.comm, status, err);
}

static const char *const examples[] = {
    "millrace bench comm --seconds 20ms",
    "millrace bench comm -n 3 --size 1MiB --seconds 20ms --json",
    NULL,
};

const struct verb verb_bench_comm = {
    .name = "bench comm",
    .arguments = {"", 0, 0},
    .summary =
        "Measure the speed of exchanges between ranks, compared with the limits of the machine.",
    .details =

        "Without a launcher, the verb starts ranks on this machine; under `mpirun`, `srun` or "
        "`torchrun`, it measures the ranks of the launcher, on any number of machines. It "
        "measures all-gathers, reduce-scatters and all-to-alls, from large to small, and the "
        "latency of small integer all-reduces. The result of a canonical reduce-scatter does "
        "not depend on the number of ranks; a fast one is that of the MPI library. Rates "
        "count the bytes that each rank receives from others. The limit is the time to copy "
        "as many bytes in memory on all ranks at once, plus two thread wake-ups; it does not "
        "apply to a network. Run nothing else during the measurement.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct bench_comm_args),
    .run = run,
};
