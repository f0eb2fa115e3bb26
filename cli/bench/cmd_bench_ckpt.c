/*
 * cmd_bench_ckpt — `millrace bench ckpt [FOLDER]`: measures saving and loading a state of a few
 * large arrays and one of many small ones, and compares both with the disk.
 *
 * Limits:
 *     save        writing a durable file of the same size, bypassing the page cache
 *     load        reading that file
 *     checksums   copying memory, by CPU time
 */
#include "base/clock.h"
#include "cli/bench/bench_ckpt.h"
#include "cli/bench/bench_file.h"
#include "cli/core/output.h"
#include "cli/core/signals.h"
#include "cli/core/storage.h"
#include "cli/verbs/verbs.h"
#include "io/file_util.h"
#include "io/local/page_cache.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>

enum {
    LARGE_COUNT = 64,
    SMALL_BYTES = 1 << 10,
    MEASUREMENTS_MAX = 16,
};
#define FILL_NS_MAX ((uint64_t)3600 * CLOCK_NS_PER_S)

struct bench_ckpt_args {
    struct common_args common;
    uint64_t size_bytes, small_count, step_ns, staging_bytes;
    uint32_t only;
};

enum { ONLY_ALL, ONLY_SAVE, ONLY_LOAD, ONLY_ASYNC, ONLY_SMALL };
static const char *const only_choices[] = {"all", "save", "load", "async", "small", NULL};

#define AT(member) offsetof(struct bench_ckpt_args, member)
static const struct option option_rows[] = {
    {"size", 0, OPTION_SIZE, AT(size_bytes), "SIZE", "1GiB",
     "size of the state in memory; use a larger one for a disk with a cache"},
    {"small", 0, OPTION_COUNT, AT(small_count), "N", "20000",
     "number of 1 KiB arrays in the second state", NULL, 1, 999999},
    {"step", 0, OPTION_DURATION, AT(step_ns), "DURATION", "1s",
     "time from an asynchronous save to the update of every array"},
    {"staging", 0, OPTION_SIZE, AT(staging_bytes), "SIZE", "64MiB",
     "memory for copies of arrays that are updated before they are written"},
    {"only", 0, OPTION_CHOICE, AT(only), NULL, "all", "what to measure", only_choices},
};

enum { STEP_LARGE = 1, STEP_SMALL = 2, STEP_ASYNC = 3 /* and higher */ };

enum limit { LIMIT_NONE, LIMIT_WRITTEN, LIMIT_READ, LIMIT_COPIED };

struct measurement {
    const char *what;
    enum limit limit;
    struct io_benchmark totals;
};

struct bench {
    const struct invocation *invocation;
    const struct bench_ckpt_args *args;
    const char *folder;
    char checkpoints[IO_PATH_BYTES_MAX]; /* the temporary folder in it */
    struct io *io;
    atomic_int *stop;
    struct measurement measurements[MEASUREMENTS_MAX];
    size_t measurements_count;
    bool has_costs;
    struct bench_ckpt_async_cost costs[BENCH_CKPT_SAVES_COUNT];
    struct io_benchmark memory_copy;
};

static bool is_selected(const struct bench *bench, uint32_t subset)
{
    return bench->args->only == ONLY_ALL || bench->args->only == subset;
}

static struct io_benchmark *add_measurement(struct bench *bench, const char *what, enum limit limit)
{
    assert(bench->measurements_count < MEASUREMENTS_MAX);
    struct measurement *m = &bench->measurements[bench->measurements_count++];
    *m = (struct measurement){.what = what, .limit = limit};
    progress_update(bench->invocation->console, bench->measurements_count, 0);
    return &m->totals;
}

static int check_stop(const struct bench *bench, struct err *err)
{
    return *bench->stop ? err_set(err, -EINTR, "stopped on request") : 0;
}

static int read_back(const struct bench *bench, const char *path, struct io_benchmark *totals,
                     struct err *err)
{
    struct io_file *file;
    struct io_benchmark_job job = {.kind = IO_READ,
                                   .file_bytes = bench->args->size_bytes,
                                   .block_bytes = BENCH_FILE_BLOCK_BYTES,
                                   .depth = BENCH_FILE_DEPTH,
                                   .is_one_pass = true,
                                   .ns_max = FILL_NS_MAX,
                                   .stop = bench->stop};
    int status = page_cache_drop(path, err);
    if (!status)
        status = bench->io->ops->file_open(bench->io, path, &file, err);
    if (status)
        return status;
    status = io_benchmark_run(bench->io, file, path, &job, totals, err);
    bench->io->ops->file_close(file);
    return status;
}

static int measure_file(struct bench *bench, bool reads_back, struct err *err)
{
    const struct bench_file_options options = {.io = bench->io,
                                               .folder = bench->checkpoints,
                                               .name = "alone",
                                               .bytes = bench->args->size_bytes,
                                               .ns_max = FILL_NS_MAX,
                                               .stop = bench->stop};
    struct io_transaction *transaction = NULL;
    int status = bench_file_write(
        &options, add_measurement(bench, "a file, written and fsynced", LIMIT_WRITTEN),
        &transaction, err);
    if (!status && reads_back)
        status = read_back(bench, bench->io->transactions->staging_path(transaction),
                           add_measurement(bench, "a file, read cold", LIMIT_READ), err);
    bench->io->transactions->abort(transaction);
    return status;
}

static int remove_step(struct bench *bench, uint64_t step, struct err *err)
{
    char name[32], path[IO_PATH_BYTES_MAX];
    snprintf(name, sizeof name, "step-%08llu", (unsigned long long)step);
    int status = io_join_path(bench->checkpoints, name, path, err);
    return status ? status : bench->io->names->remove(bench->io, path, err);
}

static int measure_large(struct bench *bench, const struct bench_ckpt_state *state, struct err *err)
{
    int status = 0;
    bool loads = is_selected(bench, ONLY_LOAD);
    if (is_selected(bench, ONLY_SAVE) || loads) {
        status = measure_file(bench, loads, err);
        if (!status)
            status = bench_ckpt_save(state, STEP_LARGE,
                                     add_measurement(bench, "a state, saved", LIMIT_WRITTEN), err);
    }
    if (!status && loads)
        status = bench_ckpt_load(state, STEP_LARGE,
                                 add_measurement(bench, "a state, loaded cold", LIMIT_READ), err);
    if (!status && (is_selected(bench, ONLY_SAVE) || loads)) {
        bench_ckpt_checksum(state, add_measurement(bench, "its checksums alone", LIMIT_COPIED));
        status = remove_step(bench, STEP_LARGE, err);
    }
    if (!status)
        status = check_stop(bench, err);
    if (!status && is_selected(bench, ONLY_ASYNC)) {
        status = bench_ckpt_save_async(state, STEP_ASYNC, bench->args->step_ns, bench->costs, err);
        bench->has_costs = status == 0;
    }
    return status ? status : check_stop(bench, err);
}

static int measure_small(struct bench *bench, const struct bench_ckpt_state *state, struct err *err)
{
    int status = bench_ckpt_save(
        state, STEP_SMALL, add_measurement(bench, "many small arrays, saved", LIMIT_NONE), err);
    return status ? status
                  : bench_ckpt_load(
                        state, STEP_SMALL,
                        add_measurement(bench, "many small arrays, loaded cold", LIMIT_NONE), err);
}

static int measure_state(struct bench *bench, uint64_t arrays_count, uint64_t array_bytes,
                         int (*run_measurements)(struct bench *, const struct bench_ckpt_state *,
                                                 struct err *),
                         struct err *err)
{
    struct bench_ckpt_options options = {.io = bench->io,
                                         .folder = bench->checkpoints,
                                         .arrays_count = arrays_count,
                                         .array_bytes = array_bytes,
                                         .staging_bytes = bench->args->staging_bytes};
    struct bench_ckpt_state state;
    int status = bench_ckpt_open(&options, &state, err);
    if (status)
        return status;
    status = run_measurements(bench, &state, err);
    bench_ckpt_close(&state);
    return status;
}

static int measure(struct bench *bench, struct err *err)
{
    int status = io_benchmark_copy(CLOCK_NS_PER_S / 4, &bench->memory_copy, err);
    if (!status && bench->args->only != ONLY_SMALL)
        status = measure_state(bench, LARGE_COUNT, bench->args->size_bytes / LARGE_COUNT,
                               measure_large, err);
    if (!status && is_selected(bench, ONLY_SMALL))
        status = measure_state(bench, bench->args->small_count, SMALL_BYTES, measure_small, err);
    return status;
}

/* For each limit, the first measurement is that of the plain file. */
static double fraction_of_limit(const struct bench *bench, const struct measurement *m)
{
    if (m->limit == LIMIT_COPIED)
        return io_benchmark_bytes_per_cpu_second(&m->totals) /
               io_benchmark_bytes_per_cpu_second(&bench->memory_copy);
    const struct measurement *first = bench->measurements;
    while (first->limit != m->limit)
        first++;
    return io_benchmark_bytes_per_second(&m->totals) /
           io_benchmark_bytes_per_second(&first->totals);
}

static void print_measurement(struct jsonx_writer *json, const struct bench *bench,
                              const struct measurement *m)
{
    jsonx_begin_object(json, NULL);
    jsonx_write_string(json, "what", m->what);
    jsonx_write_u64(json, "bytes", m->totals.bytes);
    jsonx_write_f64(json, "elapsed_seconds", clock_seconds(m->totals.elapsed_ns));
    jsonx_write_f64(json, "cpu_seconds", clock_seconds(m->totals.cpu_ns));
    jsonx_write_f64(json, "bytes_per_second", io_benchmark_bytes_per_second(&m->totals));
    jsonx_write_f64(json, "of_limit_fraction",
                    m->limit == LIMIT_NONE ? NAN : fraction_of_limit(bench, m));
    jsonx_end_object(json);
}

static int print(const struct bench *bench, struct err *err)
{
    struct output output;
    struct jsonx_writer *json = &output.json;
    output_begin(&output);
    jsonx_write_string(json, "folder", bench->folder);
    jsonx_write_f64(json, "copying_memory_bytes_per_cpu_second",
                    io_benchmark_bytes_per_cpu_second(&bench->memory_copy));
    jsonx_begin_array(json, "measurements");
    for (size_t i = 0; i < bench->measurements_count; i++)
        print_measurement(json, bench, &bench->measurements[i]);
    jsonx_end_array(json);
    if (bench->has_costs) {
        const struct bench_ckpt_async_cost *cost = &bench->costs[BENCH_CKPT_LATER_SAVE];
        jsonx_begin_object(json, "asynchronous");
        jsonx_write_f64(json, "step_seconds", clock_seconds(bench->args->step_ns));
        jsonx_write_f64(json, "save_call_seconds", clock_seconds(cost->call_ns));
        jsonx_write_f64(json, "updates_wait_seconds", clock_seconds(cost->updates_ns));
        jsonx_write_f64(json, "first_updates_wait_seconds",
                        clock_seconds(bench->costs[BENCH_CKPT_FIRST_SAVE].updates_ns));
        jsonx_write_f64(json, "save_seconds", clock_seconds(cost->save_ns));
        jsonx_write_u64(json, "copied_bytes", cost->copied_bytes);
        jsonx_write_u64(json, "staging_bytes", bench->args->staging_bytes);
        jsonx_end_object(json);
    }
    return output_end(&output, bench->args->common.json, stdout, err);
}

static int check_usage(const struct bench_ckpt_args *args, struct err *err)
{
    if (args->size_bytes >= (uint64_t)LARGE_COUNT * BENCH_FILE_BLOCK_BYTES &&
        args->size_bytes % ((uint64_t)LARGE_COUNT * BENCH_FILE_BLOCK_BYTES) == 0)
        return 0;
    err_set(err, -EINVAL, "cannot measure with these options");
    err_expected(err, "--size a multiple of 64MiB");
    return EXIT_USAGE;
}

static int run(const struct invocation *invocation, struct err *err)
{
    struct bench bench = {.invocation = invocation,
                          .args = invocation->args,
                          .folder = invocation->positional_count ? invocation->positional[0] : "."};
    struct io_stat info;
    bench.stop = signals_install();
    int status = check_usage(bench.args, err);
    if (!status)
        status = io_join_path(bench.folder, "millrace-bench-ckpt", bench.checkpoints, err);
    if (!status)
        status = storage_open_target(bench.folder, &bench.io, err);
    if (status)
        return status;
    status = bench.io->names->stat(bench.io, bench.folder, &info, err);
    if (!status && bench.io->names->stat(bench.io, bench.checkpoints, &info, NULL) == 0) {
        status = err_set(err, -EEXIST, "the temporary folder already exists");
        err_at(err, bench.checkpoints, ERR_NO_OFFSET);
        err_advise(err, "remove it if it was left by an interrupted measurement");
    } else if (!status) {
        status = bench.io->names->make_folder(bench.io, bench.checkpoints, err);
        progress_begin(invocation->console, "measuring", PROGRESS_ITEMS);
        if (!status)
            status = measure(&bench, err);
        progress_end(invocation->console);
        bench.io->names->remove(bench.io, bench.checkpoints, NULL);
    }
    io_close(bench.io);
    return status ? status : print(&bench, err);
}

static const char *const examples[] = {
    "millrace bench ckpt --size 64MiB --small 100 --step 10ms",
    "millrace bench ckpt --size 128MiB --only save --json",
    NULL,
};

const struct verb verb_bench_ckpt = {
    .name = "bench ckpt",
    .arguments = {"[FOLDER]", 0, 1},
    .summary = "Measure the speed of saving and loading checkpoints in a folder.",
    .details =

        "Creates the folder millrace-bench-ckpt in FOLDER (default `.`) and removes it at the "
        "end. A state of 64 arrays, in huge pages if the kernel offers them, is saved "
        "durably, then loaded with a cold page cache. Then one saver saves it twice, and "
        "every array is updated --step after each save. An update waits until its array is "
        "written, unless a copy fits into the staging memory. During the first save, the "
        "kernel may still have to allocate the staging memory. CPU time includes the "
        "kernel's. A save is compared with writing a durable file of the same size, bypassing "
        "the page cache; a load, with reading that file; checksums, with copying memory, by "
        "CPU time. Run nothing else during the measurement.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct bench_ckpt_args),
    .run = run,
};
