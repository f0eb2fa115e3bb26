#include "cli/bench/bench_loader.h"

#include "cli/core/storage.h"
#include "image/pipeline/check.h"
#include "shards/dataset/dataset.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FIRSTS = 5,        /* measurements; the result is their median */
    PHOTOS_MOST = 256, /* decoded by one thread, repeatedly */
};

static double rate_by(const struct loader_benchmark *speed, double count, enum bench_cost cost)
{
    return cost == BENCH_CPU ? io_benchmark_per_cpu_second(&speed->took, count)
                             : io_benchmark_per_second(&speed->took, count);
}

double bench_row_rate(const struct bench_row *row, enum bench_cost cost)
{
    return rate_by(&row->speed, (double)row->speed.samples_count, cost);
}

static struct loader_benchmark_job job_of(const struct bench_loader *bench,
                                          enum loader_decode decode, unsigned workers)
{
    struct loader_options options = loader_options_default();
    options.dataset = bench->dataset;
    options.batching = (struct batching){.global = bench->batch, .micro = bench->micro, .ranks = 1};
    options.decode = decode;
    options.image.width = options.image.height = (uint32_t)bench->size;
    options.image.crop = crop_options_default(CROP_RANDOM);
    options.image.crop.flip = true;
    options.text.block = (uint32_t)bench->block;
    options.bad_policy = LOADER_BAD_STOP;
    options.workers = workers;
    options.memory_bytes = bench->memory_bytes;
    options.log = bench->log;
    return (struct loader_benchmark_job){
        .options = options, .ns_max = bench->each_ns, .stop = bench->stop};
}

static struct bench_row *add(struct bench_loader *bench, unsigned workers,
                             const struct loader_benchmark *speed, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static struct bench_row *add(struct bench_loader *bench, unsigned workers,
                             const struct loader_benchmark *speed, const char *format, ...)
{
    assert(bench->count < BENCH_ROWS_MAX);
    struct bench_row *row = &bench->list[bench->count++];
    va_list arguments;
    *row = (struct bench_row){.workers = workers, .limit = "", .speed = *speed};
    va_start(arguments, format);
    vsnprintf(row->what, sizeof row->what, format, arguments);
    va_end(arguments);
    progress_update(bench->console, bench->count, 0);
    return row;
}

static void set_limit(struct bench_row *row, const char *limit, enum bench_cost cost,
                      double limit_rate)
{
    row->limit = limit;
    row->cost = cost;
    row->limit_rate = limit_rate;
}

static int make_cold(const struct bench_loader *bench, struct err *err)
{
    struct io *io;
    int status = storage_open(bench->dataset, NULL, &io, err);
    if (status)
        return status;
    status = dataset_drop_cache(io, bench->dataset, err);
    io_close(io);
    return status;
}

/* Reads the files through or around the page cache. Converts the bytes read to a number of
 * samples. */
static int read_plainly(struct bench_loader *bench, bool is_cold, enum io_cache cache,
                        struct loader_benchmark *ret_speed, struct err *err)
{
    struct loader_benchmark_job job = job_of(bench, LOADER_BYTES, 1);
    job.is_one_epoch = is_cold;
    struct io *io;
    int status = is_cold ? make_cold(bench, err) : 0;
    if (!status)
        status = storage_open(bench->dataset, &(struct io_options){.cache = cache}, &io, err);
    if (status)
        return status;
    bench->engine = io->ops->name;
    status = loader_benchmark_plain(io, &job, ret_speed, err);
    io_close(io);
    if (!status)
        ret_speed->samples_count = (uint64_t)((double)ret_speed->took.bytes / bench->sample_bytes);
    return status;
}

/* Compares bytes, because plain reads do not count samples. */
static void set_plain_limit(struct bench_row *row, enum bench_cost cost,
                            const struct loader_benchmark *plain)
{
    double bytes_rate = rate_by(plain, (double)plain->took.bytes, cost);
    double sample_bytes = (double)row->speed.took.bytes / (double)row->speed.samples_count;
    bool is_read = row->speed.took.bytes > 0;
    set_limit(row,
              !is_read            ? ""
              : cost == BENCH_CPU ? "plain reads, CPU time"
                                  : "plain reads, clock",
              cost, is_read ? bytes_rate / sample_bytes : 0);
}

static int measure_cold(struct bench_loader *bench, struct err *err)
{
    struct loader_benchmark through, around, speed;
    int status = read_plainly(bench, true, IO_CACHE_ALL, &through, err);
    if (!status)
        status = read_plainly(bench, true, IO_CACHE_NONE, &around, err);
    if (status)
        return status;
    bool is_around = rate_by(&around, (double)around.took.bytes, BENCH_CLOCK) >
                     rate_by(&through, (double)through.took.bytes, BENCH_CLOCK);
    const struct loader_benchmark *plain = is_around ? &around : &through;
    add(bench, 0, plain, "cold: plain reads %s",
        is_around ? "around the page cache" : "of the files");
    status = make_cold(bench, err);
    if (status)
        return status;
    struct loader_benchmark_job job = job_of(bench, LOADER_BYTES, bench->workers_most);
    job.options.single_pass = job.is_one_epoch = true;
    status = loader_benchmark_run(&job, &speed, err);
    if (!status)
        set_plain_limit(add(bench, bench->workers_most, &speed, "cold: samples as stored"),
                        BENCH_CLOCK, plain);
    return status;
}

static int measure_warm(struct bench_loader *bench, struct err *err)
{
    struct loader_benchmark_job job = job_of(bench, LOADER_BYTES, 1);
    struct loader_benchmark plain, speed;
    int status = read_plainly(bench, false, IO_CACHE_ALL, &plain, err); /* fills the page cache */
    if (!status)
        status = read_plainly(bench, false, IO_CACHE_ALL, &plain, err);
    if (status)
        return status;
    add(bench, 0, &plain, "warm: plain reads of the files");
    status = loader_benchmark_run(&job, &speed, err);
    if (status)
        return status;
    struct bench_row *row = add(bench, 1, &speed, "warm: samples as stored");
    row->is_training = bench->decode == LOADER_BYTES;
    set_plain_limit(row, BENCH_CPU, &plain);
    return 0;
}

static unsigned next_workers(const struct bench_loader *bench, unsigned workers)
{
    unsigned twice = 2 * workers;
    return workers < bench->workers_most && twice > bench->workers_most ? bench->workers_most
                                                                        : twice;
}

static int measure_workers(struct bench_loader *bench, const struct loader_benchmark *whole,
                           struct err *err)
{
    bool are_photos = bench->decode == LOADER_IMAGE;
    double one = 0;
    int status = 0;
    for (unsigned workers = 1; !status && workers <= bench->workers_most;
         workers = next_workers(bench, workers)) {
        struct loader_benchmark_job job = job_of(bench, bench->decode, workers);
        struct loader_benchmark speed;
        status = loader_benchmark_run(&job, &speed, err);
        if (status)
            break;
        struct bench_row *row =
            are_photos
                ? add(bench, workers, &speed, "photos, cropped to %" PRIu64, bench->size)
                : add(bench, workers, &speed, "windows of %" PRIu64 " tokens", bench->block + 1);
        row->is_training = true;
        if (workers == 1)
            one = bench_row_rate(row, BENCH_CLOCK);
        if (workers > 1)
            set_limit(row, "one worker x workers, clock", BENCH_CLOCK, workers * one);
        else if (whole)
            set_limit(row, "fully decoded, CPU time", BENCH_CPU,
                      rate_by(whole, (double)whole->samples_count, BENCH_CPU));
    }
    return status;
}

/* The number of mean-size photos that fit twice in half of the memory budget. */
static uint32_t photos_in_memory(const struct bench_loader *bench)
{
    double most = (double)bench->memory_bytes / 4 / bench->sample_bytes;
    return most < 1 ? 1 : most > PHOTOS_MOST ? PHOTOS_MOST : (uint32_t)most;
}

static int measure_photos(struct bench_loader *bench, struct err *err)
{
    struct loader_benchmark_job job = job_of(bench, LOADER_BYTES, 1);
    struct loader_benchmark whole;
    int status = loader_benchmark_decode(&job, photos_in_memory(bench), &whole, err);
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

static int measure_first(struct bench_loader *bench, const char *what, uint64_t position,
                         struct err *err)
{
    struct loader_benchmark_job job = job_of(bench, bench->decode, bench->workers_most);
    struct loader_benchmark speed = {0};
    uint64_t ns[FIRSTS];
    int status = 0;
    job.ns_max = 0;
    job.is_one_epoch = true;
    job.options.position = position;
    for (int i = 0; !status && i < FIRSTS; i++) {
        status = loader_benchmark_run(&job, &speed, err);
        ns[i] = status ? 0 : speed.first_batch_ns;
    }
    qsort(ns, FIRSTS, sizeof ns[0], compare);
    assert(bench->firsts_count < BENCH_FIRSTS);
    bench->firsts[bench->firsts_count++] =
        (struct bench_first){what, position, speed.first_batch_samples_count, ns[FIRSTS / 2]};
    return status;
}

/* Starts at step boundaries, because a loader opened within a step delivers only the rest of the
 * step. */
static int measure_firsts(struct bench_loader *bench, struct err *err)
{
    uint64_t middle = bench->positions / 2 / bench->batch * bench->batch;
    int status = measure_first(bench, "at the start", 0, err);
    if (!status && middle > 0)
        status = measure_first(bench, "in the middle of an epoch", middle, err);
    return status;
}

int bench_loader_measure(struct bench_loader *bench, struct err *err)
{
    int status = measure_cold(bench, err);
    if (!status)
        status = measure_warm(bench, err);
    if (!status && bench->decode == LOADER_IMAGE)
        status = measure_photos(bench, err);
    else if (!status && bench->decode == LOADER_TOKENS)
        status = measure_workers(bench, NULL, err);
    return status ? status : measure_firsts(bench, err);
}

double bench_loader_best_rate(const struct bench_loader *bench)
{
    double best = 0;
    for (size_t i = 0; i < bench->count; i++) {
        double of_this = bench_row_rate(&bench->list[i], BENCH_CLOCK);
        best = bench->list[i].is_training && of_this > best ? of_this : best;
    }
    return best;
}

static bool has_photos(const struct dataset *dataset)
{
    for (uint32_t i = 0; i < dataset->fields_count; i++)
        if (is_image_extension(dataset->fields[i]))
            return true;
    return false;
}

static int look_at_list(struct bench_loader *bench, struct io *io, struct err *err)
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

static int count_positions(struct bench_loader *bench, struct err *err)
{
    struct loader_options options = job_of(bench, bench->decode, 1).options;
    struct loader *loader;
    options.order_only = true;
    int status = loader_open(&options, &loader, err);
    if (status)
        return status;
    bench->positions = loader_shape(loader).samples;
    loader_close(loader);
    return 0;
}

int bench_loader_inspect(struct bench_loader *bench, struct io *io, struct err *err)
{
    int status = look_at_list(bench, io, err);
    return status ? status : count_positions(bench, err);
}
