/*
 * cmd_bench_loader — `millrace bench loader [DATASET]`: measures reading and decoding a dataset
 * (bench_loader.h).
 */
#include "base/clock.h"
#include "base/os/thread_pool.h"
#include "cli/bench/bench_loader.h"
#include "cli/core/output.h"
#include "cli/core/signals.h"
#include "cli/core/storage.h"
#include "cli/core/temporary_files.h"
#include "cli/verbs/verbs.h"
#include "convert/dataset/synthetic_photos.h"
#include "io/file_util.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

enum { MEASUREMENT_NS_MIN = 1000000 };

struct bench_loader_args {
    struct common_args common;
    uint64_t measurement_ns, photos, batch, micro, workers, memory_bytes, size, block;
};

#define AT(member) offsetof(struct bench_loader_args, member)
static const struct option option_rows[] = {
    {"seconds", 0, OPTION_DURATION, AT(measurement_ns), "DURATION", "1s",
     "maximum time per measurement"},
    {"workers", 'j', OPTION_COUNT, AT(workers), "N", NULL,
     "maximum number of decoding threads; 0: one per CPU", .max = 256},
    {"batch", 0, OPTION_COUNT, AT(batch), "B", "256", "samples per global batch", .min = 1,
     .max = BATCHING_SAMPLES_MAX},
    {"micro", 0, OPTION_COUNT, AT(micro), "b", "32", "samples per micro-batch; divides B", .min = 1,
     .max = BATCHING_SAMPLES_MAX},
    {"memory", 0, OPTION_SIZE, AT(memory_bytes), "SIZE", "256MiB",
     "memory budget for batches and read-ahead"},
    {"size", 0, OPTION_COUNT, AT(size), "PIXELS", "224", "photos: width and height of the crops",
     .min = 1, .max = 4096},
    {"block", 0, OPTION_COUNT, AT(block), "TOKENS", "1024",
     "text: read windows of TOKENS + 1 tokens", .min = 1, .max = 1 << 24},
    {"photos", 0, OPTION_COUNT, AT(photos), "N", "256",
     "without DATASET: number of photos to generate", .min = 1, .max = 1 << 20},
};

static void write_row(struct jsonx_writer *json, const struct bench_row *row)
{
    jsonx_begin_object(json, NULL);
    jsonx_write_string(json, "what", row->label);
    jsonx_write_u64(json, "workers", row->workers);
    jsonx_write_f64(json, "samples_per_second", bench_row_rate(row, BENCH_WALL_TIME));
    jsonx_write_f64(json, "samples_per_cpu_second", bench_row_rate(row, BENCH_CPU_TIME));
    jsonx_write_f64(json, "bytes_per_second",
                    io_benchmark_per_second(&row->result.totals, (double)row->result.totals.bytes));
    jsonx_write_string(json, "limited_by",
                       row->workers ? loader_stage_name(row->result.limit) : "");
    jsonx_write_string(json, "limit", row->limit);
    double limit_rate = *row->limit ? row->limit_rate : NAN;
    jsonx_write_f64(json, "limit_per_second", limit_rate);
    jsonx_write_f64(json, "of_limit_fraction", bench_row_rate(row, row->limit_time) / limit_rate);
    jsonx_end_object(json);
}

static int print(const struct invocation *invocation, const struct bench_loader *bench,
                 struct err *err)
{
    struct output output;
    struct jsonx_writer *json = &output.json;
    output_begin(&output);
    jsonx_write_string(json, "dataset",
                       invocation->positional_count ? bench->dataset : "generated photos");
    jsonx_write_u64(json, "samples_count", bench->samples);
    jsonx_write_u64(json, "mean_sample_bytes", (uint64_t)bench->sample_bytes);
    jsonx_write_u64(json, "cpus_count", thread_pool_cpu_count());
    jsonx_write_string(json, "engine", bench->engine);
    jsonx_write_u64(json, "batch_samples_count", bench->batch);
    jsonx_write_u64(json, "micro_batch_samples_count", bench->micro);
    jsonx_begin_array(json, "measurements");
    for (size_t i = 0; i < bench->rows_count; i++)
        write_row(json, &bench->rows[i]);
    jsonx_end_array(json);
    jsonx_begin_array(json, "first_micro_batch");
    for (size_t i = 0; i < bench->first_batches_count; i++) {
        const struct bench_first_batch *first = &bench->first_batches[i];
        double seconds = clock_seconds(first->ns);
        double limit_seconds = (double)first->samples_count / bench_loader_best_rate(bench);
        jsonx_begin_object(json, NULL);
        jsonx_write_string(json, "what", first->label);
        jsonx_write_u64(json, "position", first->position);
        jsonx_write_u64(json, "samples_count", first->samples_count);
        jsonx_write_f64(json, "elapsed_seconds", seconds);
        jsonx_write_string(json, "limit", "time of its samples in mid-epoch");
        jsonx_write_f64(json, "limit_seconds", limit_seconds);
        jsonx_write_f64(json, "of_limit_fraction", limit_seconds / seconds);
        jsonx_end_object(json);
    }
    jsonx_end_array(json);
    const struct bench_loader_args *args = invocation->args;
    return output_end(&output, args->common.json, stdout, err);
}

static int measure(const struct invocation *invocation, struct bench_loader *bench, struct io *io,
                   struct err *err)
{
    int status = bench_loader_inspect(bench, io, err);
    if (status)
        return status;
    progress_begin(invocation->console, "measuring", PROGRESS_ITEMS);
    status = bench_loader_measure(bench, err);
    progress_end(invocation->console);
    return status ? status : print(invocation, bench, err);
}

static int measure_photos_in(const struct invocation *invocation, struct bench_loader *bench,
                             struct io *io, const char *folder, struct err *err)
{
    const struct bench_loader_args *args = invocation->args;
    char path[IO_PATH_BYTES_MAX];
    int status = io_join_path(folder, "photos.tar", path, err);
    if (status)
        return status;
    int folder_id = temporary_files.add(folder), file_id = temporary_files.add(path);
    bench->dataset = path;
    status = synthetic_photos_write(io, path, args->photos, bench->stop, err);
    if (!status)
        status = measure(invocation, bench, io, err);
    io->names->remove(io, path, NULL);
    temporary_files.remove(file_id);
    temporary_files.remove(folder_id);
    return status;
}

/* Works in the staging folder of a transaction that is never committed. */
static int measure_generated_photos(const struct invocation *invocation, struct bench_loader *bench,
                                    struct io *io, struct err *err)
{
    struct io_transaction_options options = {.path = "millrace-bench-photos", .replace = true};
    struct io_transaction *transaction;
    int status = io->transactions->begin(io, &options, &transaction, err);
    if (status)
        return status;
    status =
        measure_photos_in(invocation, bench, io, io->transactions->staging_path(transaction), err);
    io->transactions->abort(transaction);
    return status;
}

static int check_usage(const struct bench_loader_args *args, struct err *err)
{
    struct batching batching = {.global = args->batch, .micro = args->micro, .ranks = 1};
    if (args->measurement_ns < MEASUREMENT_NS_MIN) {
        err_set(err, -EINVAL, "cannot measure with these options");
        err_expected(err, "--seconds at least 1ms");
        return EXIT_USAGE;
    }
    return batching_check(&batching, err) ? EXIT_USAGE : 0;
}

static int run(const struct invocation *invocation, struct err *err)
{
    const struct bench_loader_args *args = invocation->args;
    struct bench_loader bench = {
        .dataset = invocation->positional_count > 0 ? invocation->positional[0] : NULL,
        .measurement_ns = args->measurement_ns,
        .batch = args->batch,
        .micro = args->micro,
        .memory_bytes = args->memory_bytes,
        .size = args->size,
        .block = args->block,
        .workers_max = args->workers ? (unsigned)args->workers : thread_pool_cpu_count(),
        .log = invocation->log,
        .console = invocation->console,
    };
    struct io *io;
    bench.stop = signals_install();
    int status = check_usage(args, err);
    if (!status)
        status = storage_open(bench.dataset ? bench.dataset : ".", NULL, &io, err);
    if (status)
        return status;
    status = bench.dataset ? measure(invocation, &bench, io, err)
                           : measure_generated_photos(invocation, &bench, io, err);
    io_close(io);
    return status;
}

static const char *const examples[] = {
    "millrace bench loader shards --seconds 200ms",
    "millrace bench loader tokens/train --block 64 --seconds 100ms",
    "millrace bench loader --photos 32 --seconds 100ms --json",
    NULL,
};

const struct verb verb_bench_loader = {
    .name = "bench loader",
    .arguments = {"[DATASET]", 0, 1},
    .summary = "Measure the speed of reading and decoding a dataset, compared with its limits.",
    .details =

        "Without DATASET, photos are generated in the current folder and removed. Stored "
        "samples are read with a cold page cache (the files of the dataset are dropped from "
        "it first) and a warm one, and compared with plain reads of the same files: by wall "
        "time if cold, by CPU time if warm. Photos are cropped at random and compared with "
        "the same photos fully decoded by one thread; with restart markers a crop decodes "
        "only part of the file, so the fraction can be above 1. N workers are compared with N "
        "times the rate of one worker. The first micro-batch is compared with the time its "
        "samples take mid-epoch; it is measured at the start and, if an epoch has two or more "
        "steps, in the middle. CPU time includes the kernel's. The limiting stage is the one "
        "that the others waited for; the consumer takes each batch immediately. Run nothing "
        "else during the measurement.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct bench_loader_args),
    .run = run,
};
