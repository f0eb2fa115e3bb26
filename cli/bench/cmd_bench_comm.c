/*
 * cmd_bench_comm — `millrace bench comm`: measures how fast ranks exchange data, and compares it
 * with the limits of the machine.
 *
 * The limit of an exchange is the time in which all ranks at once copy the bytes that they receive,
 * plus the time of two threads waking each other, which an exchange on its own thread needs. The
 * same ranks measure both separately.
 */
#include "base/clock.h"
#include "base/os/thread_pool.h"
#include "cli/core/output.h"
#include "cli/core/signals.h"
#include "cli/core/verbs.h"
#include "cli/ranks/local_ranks.h"
#include "cli/ranks/rank_session.h"
#include "comm/benchmark.h"
#include "comm/ranks/ranks.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

enum {
    EACH_LEAST_NS = 1000000,
    SMALLEST_BYTES = 4 << 10,
    LARGEST_BYTES = 1 << 30,
    RATIO = 16,      /* between successive sizes */
    RANKS_MAX = 512, /* each has 8 bytes of the smallest size */
    MEASUREMENTS_MAX = 64,
    WAKES = 2, /* per exchange: MPI's thread, and the waiting thread */
};
#define TIMEOUT_NS (60 * CLOCK_NS_PER_S)

struct bench_comm_args {
    struct common_args common;
    uint64_t ranks, size_bytes, each_ns;
};

#define AT(member) offsetof(struct bench_comm_args, member)
static const struct option rows[] = {
    {"ranks", 'n', OPTION_COUNT, AT(ranks), "N", "2",
     "processes on this machine, started with mpirun; ignored if a launcher has started the ranks",
     .least = 2, .most = RANKS_MAX},
    {"size", 0, OPTION_SIZE, AT(size_bytes), "SIZE", "16MiB",
     "size of the largest exchange, over all ranks; each next one is a sixteenth, down to 4KiB"},
    {"seconds", 0, OPTION_DURATION, AT(each_ns), "DURATION", "200ms",
     "minimum time per measurement"},
};

struct measurement {
    uint64_t size_bytes;
    enum comm_benchmark_what what;
    struct comm_benchmark speed;
    double limit_seconds;
};

/* Owner thread, on each rank. */
struct bench {
    const struct invocation *invocation;
    const struct bench_comm_args *args;
    struct comm *comm;
    const atomic_int *stop;
    uint64_t wake_ns;
    struct measurement list[MEASUREMENTS_MAX];
    size_t count;
};

static double seconds_of(const struct comm_benchmark *speed)
{
    return clock_seconds(speed->elapsed_ns) / (double)speed->exchanges_count;
}

static int exchange(const struct bench *bench, enum comm_benchmark_what what, uint64_t bytes,
                    struct comm_benchmark *ret_speed, struct err *err)
{
    const struct comm_benchmark_job job = {.comm = bench->comm,
                                           .what = what,
                                           .bytes = bytes,
                                           .ns_min = bench->args->each_ns,
                                           .timeout_ns = TIMEOUT_NS,
                                           .stop = bench->stop};
    return comm_benchmark_run(&job, ret_speed, err);
}

static int measure_one(struct bench *bench, enum comm_benchmark_what what, uint64_t bytes,
                       double limit_seconds, struct err *err)
{
    assert(bench->count < MEASUREMENTS_MAX);
    struct measurement *m = &bench->list[bench->count];
    *m = (struct measurement){.size_bytes = bytes, .what = what, .limit_seconds = limit_seconds};
    int status = exchange(bench, what, bytes, &m->speed, err);
    bench->count += !status;
    progress_update(bench->invocation->console, bench->count, 0);
    return status;
}

/* Measures all exchanges of one size, and the copy that limits them. */
static int measure_size(struct bench *bench, uint64_t bytes, struct err *err)
{
    static const enum comm_benchmark_what whats[] = {
        COMM_BENCHMARK_ALL_GATHER, COMM_BENCHMARK_DETERMINISTIC, COMM_BENCHMARK_FAST,
        COMM_BENCHMARK_ALL_TO_ALL};
    struct comm_benchmark copying;
    int status = exchange(bench, COMM_BENCHMARK_COPY, bytes, &copying, err);
    double limit_seconds =
        WAKES * clock_seconds(bench->wake_ns) + (status ? 0 : seconds_of(&copying));
    for (size_t i = 0; i < sizeof whats / sizeof whats[0] && !status; i++)
        status = measure_one(bench, whats[i], bytes, limit_seconds, err);
    return status;
}

static int measure(struct bench *bench, struct err *err)
{
    int status = comm_benchmark_wake(bench->args->each_ns, &bench->wake_ns, err);
    double wakes_seconds = WAKES * clock_seconds(bench->wake_ns);
    if (!status)
        status = measure_one(bench, COMM_BENCHMARK_ALL_REDUCE, sizeof(int64_t), wakes_seconds, err);
    if (!status)
        status =
            measure_one(bench, COMM_BENCHMARK_ALL_REDUCE, 64 * sizeof(int64_t), wakes_seconds, err);
    for (uint64_t bytes = bench->args->size_bytes; bytes >= SMALLEST_BYTES && !status;
         bytes /= RATIO)
        status = measure_size(bench, bytes, err);
    return status;
}

/* ---- The result. ---- */

static void print_measurement(struct jsonx_writer *json, const struct measurement *m)
{
    double seconds = seconds_of(&m->speed);
    jsonx_begin_object(json, NULL);
    jsonx_write_string(json, "what", comm_benchmark_name(m->what));
    jsonx_write_u64(json, "exchange_bytes", m->size_bytes);
    jsonx_write_f64(json, "mean_seconds", seconds);
    jsonx_write_f64(json, "received_bytes_per_second", (double)m->speed.bytes / seconds);
    jsonx_write_f64(json, "limit_seconds", m->limit_seconds);
    jsonx_write_f64(json, "of_limit_fraction", m->limit_seconds / seconds);
    jsonx_end_object(json);
}

static int print(const struct bench *bench, struct err *err)
{
    struct output output;
    struct jsonx_writer *json = &output.json;
    char library[RANKS_LIBRARY_BYTES];
    int status = ranks_library(library, err);
    if (status)
        return status;
    output_begin(&output);
    jsonx_write_string(json, "library", library);
    jsonx_write_u64(json, "ranks_count", (uint64_t)bench->comm->ranks);
    jsonx_write_u64(json, "cpus_count", thread_pool_cpu_count());
    jsonx_write_f64(json, "wake_a_thread_seconds", clock_seconds(bench->wake_ns));
    jsonx_begin_array(json, "measurements");
    for (size_t i = 0; i < bench->count; i++)
        print_measurement(json, &bench->list[i]);
    jsonx_end_array(json);
    return output_end(&output, bench->args->common.json, stdout, err);
}

static int check_usage(const struct bench_comm_args *args, struct err *err)
{
    if (args->size_bytes >= SMALLEST_BYTES && args->size_bytes <= LARGEST_BYTES &&
        args->size_bytes % sizeof(int64_t) == 0 && args->each_ns >= EACH_LEAST_NS)
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
    .arguments = "",
    .summary =
        "Measure the speed of exchanges between ranks, compared with the limits of the machine.",
    .details = "Without a launcher, the verb starts ranks on this machine; under `mpirun` (or "
               "srun, torchrun) it measures the ranks of the launcher, on any number of machines. "
               "It measures all-gathers, reduce-scatters (canonical, whose bits do not depend on "
               "the number of ranks, and fast, those of the library) and all-to-alls, from large "
               "to small, and sums of integers for the latency. Bytes are those that each rank "
               "receives from others. The limit is each rank copying as many bytes within its "
               "memory, all ranks at once, and two threads waking each other in turn; it does not "
               "apply to a network. Run nothing else during the measurement.",
    .options = {rows, sizeof rows / sizeof rows[0]},
    .examples = examples,
    .args_bytes = sizeof(struct bench_comm_args),
    .run = run,
};
