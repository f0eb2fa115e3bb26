/*
 * cmd_bench_loader — `millrace bench loader [DATASET]`: how fast this machine reads and decodes a dataset, each figure beside what would limit it.
 *
 * What a figure is held against: samples as they are stored, against plain reads of the same files, by the clock where they are cold and by CPU time
 * where they are in the page cache; photos by one worker, against the same photos decoded whole by one thread, by CPU time; several workers, against so
 * many times one; a first micro-batch, against the time that one takes in the middle of an epoch.
 */
#include "base/clock.h"
#include "base/workers.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "convert/made_photos.h"
#include "image/check.h"
#include "loader/speed.h"
#include "shards/cold.h"
#include "shards/dataset.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    ROWS_MAX = 24,
    FIRSTS = 5, /* of which the median counts */
    EACH_LEAST_NS = 1000000,
    PHOTOS_MOST = 256, /* that one thread decodes whole, again and again */
};

struct bench_loader_args {
    struct common_args common;
    uint64_t each_ns, photos, batch, micro, workers, memory_bytes, size, block;
};

#define AT(member) offsetof(struct bench_loader_args, member)
static const struct option rows[] = {
    {"seconds", 0, OPTION_DURATION, AT(each_ns), "DURATION", "1s", "for each measurement, at most"},
    {"workers", 'j', OPTION_COUNT, AT(workers), "N", NULL, "the most decoding threads; 0: one a CPU",
     .most = 256},
    {"batch", 0, OPTION_COUNT, AT(batch), "B", "256", "samples of a global batch", .least = 1,
     .most = BATCHING_SAMPLES_MAX},
    {"micro", 0, OPTION_COUNT, AT(micro), "b", "32", "samples of a micro-batch; divides B", .least = 1,
     .most = BATCHING_SAMPLES_MAX},
    {"memory", 0, OPTION_SIZE, AT(memory_bytes), "SIZE", "256MiB", "for batches and all that is read ahead"},
    {"size", 0, OPTION_COUNT, AT(size), "PIXELS", "224", "of photos: width and height of the crops",
     .least = 1, .most = 4096},
    {"block", 0, OPTION_COUNT, AT(block), "TOKENS", "1024", "of text: windows of TOKENS + 1", .least = 1,
     .most = 1 << 24},
    {"photos", 0, OPTION_COUNT, AT(photos), "N", "256", "without DATASET: how many are made", .least = 1,
     .most = 1 << 20},
};

/* By which of its costs a figure is held against its limit. */
enum cost { COST_CLOCK, COST_CPU };

struct row {
    char what[48];
    unsigned workers;  /* 0: no loader */
    bool is_training;  /* samples as a training run takes them */
    enum cost cost;    /* of what limits it */
    const char *limit; /* "" where nothing is known that does */
    double limit_rate; /* samples by that cost */
    struct loader_speed speed;
};

struct first {
    const char *what;
    uint64_t ns;
};

/* Owner thread. */
struct bench {
    const struct invocation *invocation;
    const struct bench_loader_args *args;
    const char *dataset;
    enum loader_decode decode; /* what a training run would take */
    uint64_t samples;          /* of the dataset, files' bytes of one on the mean */
    double sample_bytes;
    uint64_t positions; /* of an epoch: samples, or windows of text */
    unsigned cpus, workers_most;
    const char *engine;
    atomic_int *stop;
    struct row list[ROWS_MAX];
    size_t count;
    struct first firsts[2];
};

static double rate_by(const struct loader_speed *speed, double count, enum cost cost)
{
    return cost == COST_CPU ? io_speed_per_cpu_second(&speed->took, count)
                            : io_speed_per_second(&speed->took, count);
}

static double rate(const struct row *row, enum cost cost)
{
    return rate_by(&row->speed, (double)row->speed.samples_count, cost);
}

static struct loader_options options_of(const struct bench *bench, enum loader_decode decode,
                                        unsigned workers)
{
    const struct bench_loader_args *args = bench->args;
    struct loader_options options = loader_options_default();
    options.dataset = bench->dataset;
    options.batching = (struct batching){.global = args->batch, .micro = args->micro, .ranks = 1};
    options.decode = decode;
    options.image.width = options.image.height = (uint32_t)args->size;
    options.image.crop = crop_options_default(CROP_RANDOM);
    options.image.crop.flip = true;
    options.text.block = (uint32_t)args->block;
    options.bad_policy = LOADER_BAD_STOP;
    options.workers = workers;
    options.memory_bytes = args->memory_bytes;
    options.log = bench->invocation->log;
    options.single_pass = true;
    return options;
}

static struct row *add(struct bench *bench, unsigned workers, const struct loader_speed *speed,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));
static struct row *add(struct bench *bench, unsigned workers, const struct loader_speed *speed,
                       const char *format, ...)
{
    assert(bench->count < ROWS_MAX);
    struct row *row = &bench->list[bench->count++];
    va_list arguments;
    *row = (struct row){.workers = workers, .limit = "", .speed = *speed};
    va_start(arguments, format);
    vsnprintf(row->what, sizeof row->what, format, arguments);
    va_end(arguments);
    progress_update(bench->invocation->console, bench->count, 0);
    return row;
}

static void hold_against(struct row *row, const char *limit, enum cost cost, double limit_rate)
{
    row->limit = limit;
    row->cost = cost;
    row->limit_rate = limit_rate;
}

/* ---- Samples as they are stored. ---- */

static int make_cold(const struct bench *bench, struct err *err)
{
    struct io *io;
    int status = io_open(bench->dataset, NULL, &io, err);
    if (status)
        return status;
    status = cold_make(io, bench->dataset, err);
    io_close(io);
    return status;
}

/* The files through the page cache or around it; its samples are as many as so many bytes are worth. */
static int read_plainly(struct bench *bench, bool is_cold, enum io_cache cache,
                        struct loader_speed *ret_speed, struct err *err)
{
    struct loader_options options = options_of(bench, LOADER_BYTES, 1);
    struct loader_speed_job job = {
        .options = &options, .ns_max = bench->args->each_ns, .is_one_epoch = is_cold, .stop = bench->stop};
    struct io *io;
    int status = is_cold ? make_cold(bench, err) : 0;
    if (!status)
        status = io_open(bench->dataset, &(struct io_options){.cache = cache}, &io, err);
    if (status)
        return status;
    bench->engine = io->ops->name;
    status = loader_speed_plain(io, &job, ret_speed, err);
    io_close(io);
    if (!status)
        ret_speed->samples_count = (uint64_t)((double)ret_speed->took.bytes / bench->sample_bytes);
    return status;
}

/* Bytes are what both move, so they are compared; how many samples that were is the loader's matter. */
static void hold_against_plain(struct row *row, enum cost cost, const struct loader_speed *plain)
{
    double bytes_rate = rate_by(plain, (double)plain->took.bytes, cost);
    double sample_bytes = (double)row->speed.took.bytes / (double)row->speed.samples_count;
    bool is_read = row->speed.took.bytes > 0;
    hold_against(row,
                 !is_read           ? ""
                 : cost == COST_CPU ? "plain reads, CPU time"
                                    : "plain reads, clock",
                 cost, is_read ? bytes_rate / sample_bytes : 0);
}

static int measure_cold(struct bench *bench, struct err *err)
{
    struct loader_speed through, around, speed;
    int status = read_plainly(bench, true, IO_CACHE_ALL, &through, err);
    if (!status)
        status = read_plainly(bench, true, IO_CACHE_NONE, &around, err);
    if (status)
        return status;
    bool is_around = rate_by(&around, (double)around.took.bytes, COST_CLOCK) >
                     rate_by(&through, (double)through.took.bytes, COST_CLOCK);
    const struct loader_speed *plain = is_around ? &around : &through;
    add(bench, 0, plain, "cold: plain reads %s", is_around ? "around the page cache" : "of the files");
    status = make_cold(bench, err);
    if (status)
        return status;
    struct loader_options options = options_of(bench, LOADER_BYTES, bench->workers_most);
    struct loader_speed_job job = {
        .options = &options, .ns_max = bench->args->each_ns, .is_one_epoch = true, .stop = bench->stop};
    status = loader_speed_run(&job, &speed, err);
    if (!status)
        hold_against_plain(add(bench, bench->workers_most, &speed, "cold: samples as stored"), COST_CLOCK,
                           plain);
    return status;
}

static int measure_warm(struct bench *bench, struct err *err)
{
    struct loader_options options = options_of(bench, LOADER_BYTES, 1);
    struct loader_speed_job job = {
        .options = &options, .ns_max = bench->args->each_ns, .is_one_epoch = true, .stop = bench->stop};
    struct loader_speed plain, speed;
    options.single_pass = false;
    int status = read_plainly(bench, false, IO_CACHE_ALL, &plain, err); /* into the page cache */
    if (!status)
        status = read_plainly(bench, false, IO_CACHE_ALL, &plain, err);
    if (status)
        return status;
    add(bench, 0, &plain, "warm: plain reads of the files");
    job.is_one_epoch = false;
    status = loader_speed_run(&job, &speed, err);
    if (status)
        return status;
    struct row *row = add(bench, 1, &speed, "warm: samples as stored");
    row->is_training = bench->decode == LOADER_BYTES;
    hold_against_plain(row, COST_CPU, &plain);
    return 0;
}

/* ---- As a training run takes them. ---- */

static unsigned next_workers(const struct bench *bench, unsigned workers)
{
    unsigned twice = 2 * workers;
    return workers < bench->workers_most && twice > bench->workers_most ? bench->workers_most : twice;
}

static int measure_workers(struct bench *bench, const struct loader_speed *whole, struct err *err)
{
    bool are_photos = bench->decode == LOADER_IMAGE;
    double one = 0;
    int status = 0;
    for (unsigned workers = 1; !status && workers <= bench->workers_most;
         workers = next_workers(bench, workers)) {
        struct loader_options options = options_of(bench, bench->decode, workers);
        struct loader_speed_job job = {
            .options = &options, .ns_max = bench->args->each_ns, .stop = bench->stop};
        struct loader_speed speed;
        options.single_pass = false;
        status = loader_speed_run(&job, &speed, err);
        if (status)
            break;
        struct row *row =
            are_photos ? add(bench, workers, &speed, "photos, cropped to %" PRIu64, bench->args->size)
                       : add(bench, workers, &speed, "windows of %" PRIu64 " tokens", bench->args->block + 1);
        row->is_training = true;
        if (workers == 1)
            one = rate(row, COST_CLOCK);
        if (workers > 1)
            hold_against(row, "so many times one, clock", COST_CLOCK, workers * one);
        else if (whole)
            hold_against(row, "decoded whole, CPU time", COST_CPU,
                         rate_by(whole, (double)whole->samples_count, COST_CPU));
    }
    return status;
}

/* As many as a loader can hold twice in half of the budget, were all as large as the mean. */
static uint32_t photos_in_memory(const struct bench *bench)
{
    double most = (double)bench->args->memory_bytes / 4 / bench->sample_bytes;
    return most < 1 ? 1 : most > PHOTOS_MOST ? PHOTOS_MOST : (uint32_t)most;
}

static int measure_photos(struct bench *bench, struct err *err)
{
    struct loader_options options = options_of(bench, LOADER_BYTES, 1);
    struct loader_speed_job job = {.options = &options,
                                   .ns_max = bench->args->each_ns,
                                   .photos_count = photos_in_memory(bench),
                                   .stop = bench->stop};
    struct loader_speed whole;
    int status = loader_speed_decode(&job, &whole, err);
    if (status)
        return status;
    add(bench, 0, &whole, "photos decoded whole, one thread");
    return measure_workers(bench, &whole, err);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int measure_first(struct bench *bench, struct first *first, const char *what, uint64_t position,
                         struct err *err)
{
    struct loader_options options = options_of(bench, bench->decode, bench->workers_most);
    struct loader_speed_job job = {.options = &options, .is_one_epoch = true, .stop = bench->stop};
    uint64_t ns[FIRSTS];
    int status = 0;
    options.single_pass = false;
    options.position = position;
    for (int i = 0; !status && i < FIRSTS; i++) {
        struct loader_speed speed;
        status = loader_speed_run(&job, &speed, err);
        ns[i] = status ? 0 : speed.first_batch_ns;
    }
    qsort(ns, FIRSTS, sizeof ns[0], compare);
    *first = (struct first){what, ns[FIRSTS / 2]};
    return status;
}

static int measure_all(struct bench *bench, struct err *err)
{
    int status = measure_cold(bench, err);
    if (!status)
        status = measure_warm(bench, err);
    if (!status && bench->decode == LOADER_IMAGE)
        status = measure_photos(bench, err);
    else if (!status && bench->decode == LOADER_TOKENS)
        status = measure_workers(bench, NULL, err);
    if (!status)
        status = measure_first(bench, &bench->firsts[0], "at the start", 0, err);
    if (!status)
        status =
            measure_first(bench, &bench->firsts[1], "in the middle of an epoch", bench->positions / 2, err);
    return status;
}

/* ---- The result. ---- */

static void write_row(struct json_writer *json, const struct row *row)
{
    json_begin_object(json, NULL);
    json_write_string(json, "what", row->what);
    json_write_u64(json, "workers", row->workers);
    json_write_f64(json, "samples_per_second", rate(row, COST_CLOCK));
    json_write_f64(json, "samples_per_cpu_second", rate(row, COST_CPU));
    json_write_f64(json, "bytes_per_second", rate_by(&row->speed, (double)row->speed.took.bytes, COST_CLOCK));
    json_write_string(json, "limited_by", row->workers ? loader_stage_name(row->speed.limit) : "");
    json_write_string(json, "limit", row->limit);
    if (*row->limit) {
        json_write_f64(json, "limit_per_second", row->limit_rate);
        json_write_f64(json, "of_limit_fraction", rate(row, row->cost) / row->limit_rate);
    } else {
        json_write_null(json, "limit_per_second");
        json_write_null(json, "of_limit_fraction");
    }
    json_end_object(json);
}

static double best_rate(const struct bench *bench)
{
    double best = 0;
    for (size_t i = 0; i < bench->count; i++) {
        double of_this = rate(&bench->list[i], COST_CLOCK);
        best = bench->list[i].is_training && of_this > best ? of_this : best;
    }
    return best;
}

static int print(const struct bench *bench, struct err *err)
{
    struct output output;
    struct json_writer *json = &output.json;
    output_begin(&output);
    json_write_string(json, "dataset", bench->invocation->positional_count ? bench->dataset : "made photos");
    json_write_u64(json, "samples_count", bench->samples);
    json_write_u64(json, "mean_sample_bytes", (uint64_t)bench->sample_bytes);
    json_write_u64(json, "cpus_count", bench->cpus);
    json_write_string(json, "engine", bench->engine);
    json_write_u64(json, "batch_samples_count", bench->args->batch);
    json_write_u64(json, "micro_batch_samples_count", bench->args->micro);
    json_begin_array(json, "measurements");
    for (size_t i = 0; i < bench->count; i++)
        write_row(json, &bench->list[i]);
    json_end_array(json);
    double limit_seconds = (double)bench->args->micro / best_rate(bench);
    json_begin_array(json, "first_micro_batch");
    for (size_t i = 0; i < sizeof bench->firsts / sizeof bench->firsts[0]; i++) {
        double seconds = clock_seconds(bench->firsts[i].ns);
        json_begin_object(json, NULL);
        json_write_string(json, "what", bench->firsts[i].what);
        json_write_f64(json, "elapsed_seconds", seconds);
        json_write_string(json, "limit", "its time in an epoch's middle");
        json_write_f64(json, "limit_seconds", limit_seconds);
        json_write_f64(json, "of_limit_fraction", limit_seconds / seconds);
        json_end_object(json);
    }
    json_end_array(json);
    return output_end(&output, bench->args->common.json, stdout, err);
}

/* ---- The dataset. ---- */

static bool has_photos(const struct dataset *dataset)
{
    for (uint32_t i = 0; i < dataset->fields_count; i++)
        if (image_is_expected(dataset->fields[i]))
            return true;
    return false;
}

/* What a training run would take of it. */
static int look_at(struct bench *bench, struct io *io, struct err *err)
{
    struct dataset *dataset;
    uint64_t bytes = 0;
    int status = dataset_open(io, bench->dataset, &dataset, err);
    if (status)
        return status;
    for (uint64_t i = 0; i < dataset->shards_count; i++)
        bytes += dataset->shards[i].file_bytes;
    bench->samples = dataset->samples;
    bench->sample_bytes = (double)bytes / (double)(dataset->samples ? dataset->samples : 1);
    bench->decode = dataset->text.element[0] ? LOADER_TOKENS
                    : has_photos(dataset)    ? LOADER_IMAGE
                                             : LOADER_BYTES;
    dataset_close(dataset);
    return 0;
}

static int count_positions(struct bench *bench, struct err *err)
{
    struct loader_options options = options_of(bench, bench->decode, 1);
    struct loader *loader;
    options.order_only = true;
    int status = loader_open(&options, &loader, err);
    if (status)
        return status;
    bench->positions = loader_shape(loader).samples;
    loader_close(loader);
    return 0;
}

static int measure(struct bench *bench, struct io *io, struct err *err)
{
    int status = look_at(bench, io, err);
    if (!status)
        status = count_positions(bench, err);
    if (status)
        return status;
    progress_begin(bench->invocation->console, "measuring", PROGRESS_ITEMS);
    status = measure_all(bench, err);
    progress_end(bench->invocation->console);
    return status ? status : print(bench, err);
}

/* In the current folder. */
static int measure_made_photos(struct bench *bench, struct io *io, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    snprintf(path, sizeof path, "millrace-bench-%ld.tar", (long)getpid());
    bench->dataset = path;
    int status = made_photos_write(io, path, bench->args->photos, bench->stop, err);
    if (status)
        return status;
    status = measure(bench, io, err);
    int removed = io->ops->remove(io, path, status ? NULL : err);
    return status ? status : removed;
}

static int check_usage(const struct bench_loader_args *args, struct err *err)
{
    struct batching batching = {.global = args->batch, .micro = args->micro, .ranks = 1};
    if (args->each_ns < EACH_LEAST_NS) {
        err_set(err, -EINVAL, "nothing can be measured so");
        err_expected(err, "--seconds at least 1ms");
        return EXIT_USAGE;
    }
    return batching_check(&batching, err) ? EXIT_USAGE : 0;
}

static int run(const struct invocation *invocation, struct err *err)
{
    const struct bench_loader_args *args = invocation->args;
    struct bench bench = {.invocation = invocation, .args = args, .cpus = workers_cpu_count()};
    struct io *io;
    bench.workers_most = args->workers ? (unsigned)args->workers : bench.cpus;
    bench.stop = signals_install();
    int status = check_usage(args, err);
    if (status)
        return status;
    if (invocation->positional_count > 0)
        bench.dataset = invocation->positional[0];
    status = io_open(bench.dataset ? bench.dataset : ".", NULL, &io, err);
    if (status)
        return status;
    status = bench.dataset ? measure(&bench, io, err) : measure_made_photos(&bench, io, err);
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
    .arguments = "[DATASET]",
    .arguments_least = 0,
    .arguments_most = 1,
    .summary = "Measure how fast a dataset is read and decoded here, each figure beside its limit.",
    .details = "Without DATASET, photos are made in the current folder, and removed. Samples as they are "
               "stored are read with the page cache cold "
               "(the dataset's files are dropped from it first) and warm, beside plain reads of the same "
               "files: by the clock where they are cold, by "
               "CPU time where they are warm. Photos are cropped at random, beside the same photos decoded "
               "whole by one thread; where restart "
               "markers let crops be cut out of the files they cost less than that, so the fraction may be "
               "above 1. More workers stand beside so many "
               "times one, a first micro-batch beside the time of one in an epoch's middle. CPU time is that "
               "of program and kernel. The "
               "stage that limits is the one that the others waited for: who consumes here takes all at "
               "once. Nothing else should run "
               "meanwhile.",
    .options = {rows, sizeof rows / sizeof rows[0]},
    .examples = examples,
    .args_bytes = sizeof(struct bench_loader_args),
    .run = run,
};
