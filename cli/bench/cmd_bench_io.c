/*
 * cmd_bench_io — `millrace bench io [FOLDER]`: measures reading and writing in a folder with each
 * engine.
 *
 * Writes and cold reads are compared with the fastest of their kind; warm reads with copying
 * memory, by CPU time.
 */
#include "base/clock.h"
#include "cli/bench/bench_file.h"
#include "cli/bench/io_benchmark.h"
#include "cli/core/output.h"
#include "cli/core/signals.h"
#include "cli/core/storage.h"
#include "cli/doctor/io_probe.h"
#include "cli/verbs/verbs.h"
#include "io/local/page_cache.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

enum {
    BLOCK_LARGE_BYTES = 1 << 20,
    BLOCK_SAMPLE_BYTES = 128 << 10,
    BLOCK_SMALL_BYTES = 4 << 10,
    DEPTH_DEFAULT = 32,
    FILL_RATIO = 4, /* writing may take this multiple of a measurement's time */
    MEASUREMENT_NS_MIN = 1000000,
    MEASUREMENTS_MAX = 48,
};

struct bench_io_args {
    struct common_args common;
    uint64_t size_bytes, measurement_ns;
};

#define AT(member) offsetof(struct bench_io_args, member)
static const struct option option_rows[] = {
    {"size", 0, OPTION_SIZE, AT(size_bytes), "SIZE", "1GiB",
     "size of the temporary file; use a larger one for a disk with a cache"},
    {"seconds", 0, OPTION_DURATION, AT(measurement_ns), "DURATION", "1s",
     "maximum time per measurement"},
};

enum medium { MEDIUM_COLD, MEDIUM_WARM, MEDIUM_WRITTEN };

struct measurement {
    char what[48];
    const char *engine;
    const char *page_cache; /* "through" or "around" */
    unsigned depth;
    enum medium medium;
    struct io_benchmark totals;
};

struct pattern {
    const char *what;
    uint64_t block_bytes;
    unsigned depth;
    bool is_random, is_warm;
    enum io_cache cache;
};

static const struct pattern patterns[] = {
    {"cold, sequential 1 MiB", BLOCK_LARGE_BYTES, DEPTH_DEFAULT, false, false, IO_CACHE_NONE},
    {"cold, sequential 1 MiB", BLOCK_LARGE_BYTES, DEPTH_DEFAULT, false, false, IO_CACHE_ALL},
    {"cold, random 128 KiB", BLOCK_SAMPLE_BYTES, DEPTH_DEFAULT, true, false, IO_CACHE_NONE},
    {"cold, random 128 KiB", BLOCK_SAMPLE_BYTES, DEPTH_DEFAULT, true, false, IO_CACHE_ALL},
    {"cold, random 4 KiB", BLOCK_SMALL_BYTES, 1, true, false, IO_CACHE_NONE},
    {"cold, random 4 KiB", BLOCK_SMALL_BYTES, 8, true, false, IO_CACHE_NONE},
    {"cold, random 4 KiB", BLOCK_SMALL_BYTES, 64, true, false, IO_CACHE_NONE},
    {"cold, random 4 KiB", BLOCK_SMALL_BYTES, 256, true, false, IO_CACHE_NONE},
    {"warm, sequential 1 MiB", BLOCK_LARGE_BYTES, 4, false, true, IO_CACHE_ALL},
    {"warm, random 128 KiB", BLOCK_SAMPLE_BYTES, DEPTH_DEFAULT, true, true, IO_CACHE_ALL},
    {"warm, random 4 KiB", BLOCK_SMALL_BYTES, 64, true, true, IO_CACHE_ALL},
};

struct bench {
    const struct invocation *invocation;
    const struct bench_io_args *args;
    const char *folder;
    atomic_int *stop;
    bool has_direct;
    uint64_t file_bytes; /* actually written */
    struct measurement measurements[MEASUREMENTS_MAX];
    size_t measurements_count;
    struct io_benchmark memory_copy;
};

static struct measurement *add_measurement(struct bench *bench, const char *what,
                                           const struct io *io, enum io_cache cache, unsigned depth,
                                           enum medium medium)
{
    assert(bench->measurements_count < MEASUREMENTS_MAX);
    struct measurement *m = &bench->measurements[bench->measurements_count++];
    *m = (struct measurement){.engine = io->ops->name,
                              .page_cache = cache == IO_CACHE_NONE ? "around" : "through",
                              .depth = depth,
                              .medium = medium};
    snprintf(m->what, sizeof m->what, "%s", what);
    progress_update(bench->invocation->console, bench->measurements_count, 0);
    return m;
}

/* The file exists until the caller aborts the transaction. */
static int write_file(const struct bench *bench, struct io *io, uint64_t ns_max,
                      struct io_benchmark *totals, struct io_transaction **ret_transaction,
                      struct err *err)
{
    const struct bench_file_options options = {.io = io,
                                               .folder = bench->folder,
                                               .name = "millrace-bench",
                                               .bytes = bench->args->size_bytes,
                                               .ns_max = ns_max,
                                               .stop = bench->stop};
    return bench_file_write(&options, totals, ret_transaction, err);
}

static int measure_read(struct bench *bench, enum io_engine engine, const struct pattern *pattern,
                        const char *path, struct err *err)
{
    struct io *io;
    struct io_file *file = NULL;
    struct io_options options = {.engine = engine, .cache = pattern->cache};
    int status = storage_open(path, &options, &io, err);
    if (status)
        return status;
    status = pattern->is_warm ? 0 : page_cache_drop(path, err);
    if (!status)
        status = io->ops->file_open(io, path, &file, err);
    if (!status) {
        struct measurement *m =
            add_measurement(bench, pattern->what, io, pattern->cache, pattern->depth,
                            pattern->is_warm ? MEDIUM_WARM : MEDIUM_COLD);
        struct io_benchmark_job job = {.kind = IO_READ,
                                       .file_bytes = bench->file_bytes / pattern->block_bytes *
                                                     pattern->block_bytes,
                                       .block_bytes = pattern->block_bytes,
                                       .depth = pattern->depth,
                                       .is_random = pattern->is_random,
                                       .is_one_pass = !pattern->is_warm,
                                       .ns_max = bench->args->measurement_ns,
                                       .stop = bench->stop};
        status = io_benchmark_run(io, file, path, &job, &m->totals, err);
    }
    if (file)
        io->ops->file_close(file);
    io_close(io);
    return status;
}

static int fill_page_cache(const struct bench *bench, const char *path, struct err *err)
{
    struct io *io;
    struct io_file *file;
    struct io_benchmark unused = {0};
    int status = storage_open(path, &(struct io_options){.cache = IO_CACHE_ALL}, &io, err);
    if (status)
        return status;
    status = io->ops->file_open(io, path, &file, err);
    if (!status) {
        struct io_benchmark_job job = {.kind = IO_READ,
                                       .file_bytes = io->ops->file_size(file),
                                       .block_bytes = BLOCK_LARGE_BYTES,
                                       .depth = 4,
                                       .is_one_pass = true,
                                       .ns_max = UINT64_MAX,
                                       .stop = bench->stop};
        status = io_benchmark_run(io, file, path, &job, &unused, err);
        io->ops->file_close(file);
    }
    io_close(io);
    return status;
}

static int measure_reads(struct bench *bench, const enum io_engine *engines, size_t engines_count,
                         const char *path, struct err *err)
{
    int status = 0;
    bool is_warm = false;
    for (size_t i = 0; !status && i < sizeof patterns / sizeof patterns[0]; i++) {
        if (patterns[i].cache == IO_CACHE_NONE && !bench->has_direct)
            continue;
        if (patterns[i].is_warm && !is_warm) {
            status = fill_page_cache(bench, path, err);
            is_warm = true;
        }
        for (size_t k = 0; !status && k < engines_count; k++)
            status = measure_read(bench, engines[k], &patterns[i], path, err);
    }
    return status;
}

static int measure_writes(struct bench *bench, const enum io_engine *engines, size_t engines_count,
                          struct err *err)
{
    static const enum io_cache caches[] = {IO_CACHE_NONE, IO_CACHE_ALL};
    int status = 0;
    for (size_t i = bench->has_direct ? 0 : 1; !status && i < 2; i++) {
        for (size_t k = 0; !status && k < engines_count; k++) {
            struct io *io;
            struct io_transaction *transaction = NULL;
            struct io_options options = {.engine = engines[k], .cache = caches[i]};
            status = storage_open(bench->folder, &options, &io, err);
            if (status)
                return status;
            struct measurement *m = add_measurement(bench, "written, sequential 1 MiB, fsync", io,
                                                    caches[i], BENCH_FILE_DEPTH, MEDIUM_WRITTEN);
            status =
                write_file(bench, io, bench->args->measurement_ns, &m->totals, &transaction, err);
            io->transactions->abort(transaction);
            io_close(io);
        }
    }
    return status;
}

static int fail_slow_fill(const struct bench *bench, struct err *err)
{
    err_set(err, -ETIMEDOUT, "writing 1 MiB of the temporary file took too long");
    err_at(err, bench->folder, ERR_NO_OFFSET);
    err_advise(err, "raise --seconds");
    return -ETIMEDOUT;
}

static int measure_reads_of_new_file(struct bench *bench, const enum io_engine *engines,
                                     size_t engines_count, struct err *err)
{
    struct io *io;
    struct io_transaction *transaction = NULL;
    struct io_benchmark fill = {0};
    int status = storage_open(bench->folder, NULL, &io, err);
    if (status)
        return status;
    status =
        write_file(bench, io, FILL_RATIO * bench->args->measurement_ns, &fill, &transaction, err);
    bench->file_bytes = fill.bytes;
    if (!status && fill.bytes == 0)
        status = fail_slow_fill(bench, err);
    if (!status)
        status = measure_reads(bench, engines, engines_count,
                               io->transactions->staging_path(transaction), err);
    io->transactions->abort(transaction);
    io_close(io);
    return status;
}

/* Compares warm reads by CPU time, which other load does not affect, and all others by elapsed
 * time. */
static double fraction_of_limit(const struct bench *bench, const struct measurement *m)
{
    if (m->medium == MEDIUM_WARM)
        return io_benchmark_bytes_per_cpu_second(&m->totals) /
               io_benchmark_bytes_per_cpu_second(&bench->memory_copy);
    double highest = 0;
    for (size_t i = 0; i < bench->measurements_count; i++) {
        const struct measurement *other = &bench->measurements[i];
        double rate = io_benchmark_bytes_per_second(&other->totals);
        highest = other->medium == m->medium && rate > highest ? rate : highest;
    }
    return highest > 0 ? io_benchmark_bytes_per_second(&m->totals) / highest : 0;
}

static int print(const struct bench *bench, struct err *err)
{
    struct output output;
    struct jsonx_writer *json = &output.json;
    output_begin(&output);
    jsonx_write_string(json, "folder", bench->folder);
    jsonx_write_u64(json, "file_bytes", bench->file_bytes);
    jsonx_write_bool(json, "has_direct", bench->has_direct);
    jsonx_write_f64(json, "copying_memory_bytes_per_cpu_second",
                    io_benchmark_bytes_per_cpu_second(&bench->memory_copy));
    jsonx_begin_array(json, "measurements");
    for (size_t i = 0; i < bench->measurements_count; i++) {
        const struct measurement *m = &bench->measurements[i];
        double gigabytes = (double)m->totals.bytes / 1e9,
               rate = io_benchmark_bytes_per_second(&m->totals);
        jsonx_begin_object(json, NULL);
        jsonx_write_string(json, "what", m->what);
        jsonx_write_string(json, "engine", m->engine);
        jsonx_write_string(json, "page_cache", m->page_cache);
        jsonx_write_u64(json, "depth", m->depth);
        jsonx_write_f64(json, "bytes_per_second", rate);
        jsonx_write_f64(json, "operations_per_second",
                        io_benchmark_per_second(&m->totals, (double)m->totals.operations_count));
        jsonx_write_f64(json, "cpu_seconds_per_gigabyte",
                        gigabytes > 0 ? clock_seconds(m->totals.cpu_ns) / gigabytes : 0);
        jsonx_write_f64(json, "of_limit_fraction", fraction_of_limit(bench, m));
        jsonx_end_object(json);
    }
    jsonx_end_array(json);
    return output_end(&output, bench->args->common.json, stdout, err);
}

static int check_usage(const struct bench_io_args *args, struct err *err)
{
    if (args->size_bytes >= BLOCK_LARGE_BYTES && args->size_bytes % BLOCK_LARGE_BYTES == 0 &&
        args->measurement_ns >= MEASUREMENT_NS_MIN)
        return 0;
    err_set(err, -EINVAL, "cannot measure with these options");
    err_expected(err, "--size a multiple of 1MiB, --seconds at least 1ms");
    return EXIT_USAGE;
}

static int run(const struct invocation *invocation, struct err *err)
{
    struct bench bench = {.invocation = invocation,
                          .args = invocation->args,
                          .folder = invocation->positional_count ? invocation->positional[0] : "."};
    enum io_engine engines[2];
    size_t engines_count = 0;
    struct io_probe probe;
    struct io *ring;
    bench.stop = signals_install();
    int status = check_usage(bench.args, err);
    if (!status)
        status = io_probe_folder(bench.folder, false, &probe, err);
    if (status)
        return status;
    bench.has_direct = probe.write_status == 0 && probe.direct_status == 0 &&
                       probe.direct_offset_align_bytes <= IO_ALIGN_BYTES;
    if (storage_open(bench.folder, &(struct io_options){.engine = IO_ENGINE_URING}, &ring, NULL) ==
        0) {
        engines[engines_count++] = IO_ENGINE_URING;
        io_close(ring);
    }
    engines[engines_count++] = IO_ENGINE_THREADS;
    progress_begin(invocation->console, "measuring", PROGRESS_ITEMS);
    status = io_benchmark_copy(bench.args->measurement_ns / 4, &bench.memory_copy, err);
    if (!status)
        status = measure_reads_of_new_file(&bench, engines, engines_count, err);
    if (!status)
        status = measure_writes(&bench, engines, engines_count, err);
    progress_end(invocation->console);
    return status ? status : print(&bench, err);
}

static const char *const examples[] = {
    "millrace bench io --size 256MiB --seconds 200ms",
    "millrace bench io shards --size 64MiB --seconds 100ms --json",
    NULL,
};

const struct verb verb_bench_io = {
    .name = "bench io",
    .arguments = {"[FOLDER]", 0, 1},
    .summary = "Measure the speed of reading and writing files in a folder, for each engine.",
    .details =
        "Creates a temporary file in FOLDER (default `.`) and removes it. Each access pattern "
        "is measured with a cold page cache (the file's pages are dropped first) or a warm "
        "one, through the cache or bypassing it. CPU time includes the kernel's. Cold reads "
        "and writes are compared with the fastest of their kind; warm reads, with copying "
        "memory, by CPU time. Run nothing else during the measurement.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct bench_io_args),
    .run = run,
};
