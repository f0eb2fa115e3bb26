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
    FIRST_BATCH_RUNS = 5, /* the result is their median */
    PHOTOS_MAX = 256,     /* decoded repeatedly by one thread */
};

static double rate(const struct loader_benchmark *result, double count, enum bench_time time)
{
    return time == BENCH_CPU_TIME ? io_benchmark_per_cpu_second(&result->totals, count)
                                  : io_benchmark_per_second(&result->totals, count);
}

double bench_row_rate(const struct bench_row *row, enum bench_time time)
{
    return rate(&row->result, (double)row->result.samples_count, time);
}

static struct loader_benchmark_job make_job(const struct bench_loader *bench,
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
        .options = options, .ns_max = bench->measurement_ns, .stop = bench->stop};
}

static struct bench_row *add_row(struct bench_loader *bench, unsigned workers,
                                 const struct loader_benchmark *result, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static struct bench_row *add_row(struct bench_loader *bench, unsigned workers,
                                 const struct loader_benchmark *result, const char *format, ...)
{
    assert(bench->rows_count < BENCH_ROWS_MAX);
    struct bench_row *row = &bench->rows[bench->rows_count++];
    va_list arguments;
    *row = (struct bench_row){.workers = workers, .limit = "", .result = *result};
    va_start(arguments, format);
    vsnprintf(row->label, sizeof row->label, format, arguments);
    va_end(arguments);
    progress_update(bench->console, bench->rows_count, 0);
    return row;
}

static void set_limit(struct bench_row *row, const char *limit, enum bench_time time,
                      double limit_rate)
{
    row->limit = limit;
    row->limit_time = time;
    row->limit_rate = limit_rate;
}

static int drop_cache(const struct bench_loader *bench, struct err *err)
{
    struct io *io;
    int status = storage_open(bench->dataset, NULL, &io, err);
    if (status)
        return status;
    status = dataset_drop_cache(io, bench->dataset, err);
    io_close(io);
    return status;
}

/* Derives the number of samples from the bytes read. */
static int measure_plain_reads(struct bench_loader *bench, bool is_cold, enum io_cache cache,
                               struct loader_benchmark *ret_result, struct err *err)
{
    struct loader_benchmark_job job = make_job(bench, LOADER_BYTES, 1);
    job.is_one_epoch = is_cold;
    struct io *io;
    int status = is_cold ? drop_cache(bench, err) : 0;
    if (!status)
        status = storage_open(bench->dataset, &(struct io_options){.cache = cache}, &io, err);
    if (status)
        return status;
    bench->engine = io->ops->name;
    status = loader_benchmark_read_files(io, &job, ret_result, err);
    io_close(io);
    if (!status)
        ret_result->samples_count =
            (uint64_t)((double)ret_result->totals.bytes / bench->sample_bytes);
    return status;
}

/* Compares bytes, because plain reads count no samples. */
static void set_plain_limit(struct bench_row *row, enum bench_time time,
                            const struct loader_benchmark *plain)
{
    double bytes_rate = rate(plain, (double)plain->totals.bytes, time);
    double sample_bytes = (double)row->result.totals.bytes / (double)row->result.samples_count;
    bool is_read = row->result.totals.bytes > 0;
    set_limit(row,
              !is_read                 ? ""
              : time == BENCH_CPU_TIME ? "plain reads, CPU time"
                                       : "plain reads, clock",
              time, is_read ? bytes_rate / sample_bytes : 0);
}

static int measure_cold(struct bench_loader *bench, struct err *err)
{
    struct loader_benchmark cached, direct, result;
    int status = measure_plain_reads(bench, true, IO_CACHE_ALL, &cached, err);
    if (!status)
        status = measure_plain_reads(bench, true, IO_CACHE_NONE, &direct, err);
    if (status)
        return status;
    bool bypasses_cache = rate(&direct, (double)direct.totals.bytes, BENCH_WALL_TIME) >
                          rate(&cached, (double)cached.totals.bytes, BENCH_WALL_TIME);
    const struct loader_benchmark *plain = bypasses_cache ? &direct : &cached;
    add_row(bench, 0, plain, "cold: plain reads %s",
            bypasses_cache ? "around the page cache" : "of the files");
    status = drop_cache(bench, err);
    if (status)
        return status;
    struct loader_benchmark_job job = make_job(bench, LOADER_BYTES, bench->workers_max);
    job.options.single_pass = job.is_one_epoch = true;
    status = loader_benchmark_run(&job, &result, err);
    if (!status)
        set_plain_limit(add_row(bench, bench->workers_max, &result, "cold: samples as stored"),
                        BENCH_WALL_TIME, plain);
    return status;
}

static int measure_warm(struct bench_loader *bench, struct err *err)
{
    struct loader_benchmark_job job = make_job(bench, LOADER_BYTES, 1);
    struct loader_benchmark plain, result;
    int status =
        measure_plain_reads(bench, false, IO_CACHE_ALL, &plain, err); /* fills the page cache */
    if (!status)
        status = measure_plain_reads(bench, false, IO_CACHE_ALL, &plain, err);
    if (status)
        return status;
    add_row(bench, 0, &plain, "warm: plain reads of the files");
    status = loader_benchmark_run(&job, &result, err);
    if (status)
        return status;
    struct bench_row *row = add_row(bench, 1, &result, "warm: samples as stored");
    row->matches_training = bench->decode == LOADER_BYTES;
    set_plain_limit(row, BENCH_CPU_TIME, &plain);
    return 0;
}

static unsigned next_workers(const struct bench_loader *bench, unsigned workers)
{
    unsigned doubled = 2 * workers;
    return workers < bench->workers_max && doubled > bench->workers_max ? bench->workers_max
                                                                        : doubled;
}

static int measure_workers(struct bench_loader *bench, const struct loader_benchmark *full_decode,
                           struct err *err)
{
    bool decodes_photos = bench->decode == LOADER_IMAGE;
    double one_worker_rate = 0;
    int status = 0;
    for (unsigned workers = 1; !status && workers <= bench->workers_max;
         workers = next_workers(bench, workers)) {
        struct loader_benchmark_job job = make_job(bench, bench->decode, workers);
        struct loader_benchmark result;
        status = loader_benchmark_run(&job, &result, err);
        if (status)
            break;
        struct bench_row *row =
            decodes_photos
                ? add_row(bench, workers, &result, "photos, cropped to %" PRIu64, bench->size)
                : add_row(bench, workers, &result, "windows of %" PRIu64 " tokens",
                          bench->block + 1);
        row->matches_training = true;
        if (workers == 1)
            one_worker_rate = bench_row_rate(row, BENCH_WALL_TIME);
        if (workers > 1)
            set_limit(row, "one worker x workers, clock", BENCH_WALL_TIME,
                      workers * one_worker_rate);
        else if (full_decode)
            set_limit(row, "fully decoded, CPU time", BENCH_CPU_TIME,
                      rate(full_decode, (double)full_decode->samples_count, BENCH_CPU_TIME));
    }
    return status;
}

/* The number of mean-size photos that fit into a quarter of the memory budget. */
static uint32_t photos_that_fit(const struct bench_loader *bench)
{
    double count = (double)bench->memory_bytes / 4 / bench->sample_bytes;
    return count < 1 ? 1 : count > PHOTOS_MAX ? PHOTOS_MAX : (uint32_t)count;
}

static int measure_photos(struct bench_loader *bench, struct err *err)
{
    struct loader_benchmark_job job = make_job(bench, LOADER_BYTES, 1);
    struct loader_benchmark full_decode;
    int status = loader_benchmark_decode(&job, photos_that_fit(bench), &full_decode, err);
    if (status)
        return status;
    add_row(bench, 0, &full_decode, "photos decoded whole, one thread");
    return measure_workers(bench, &full_decode, err);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int measure_first_batch(struct bench_loader *bench, const char *label, uint64_t position,
                               struct err *err)
{
    struct loader_benchmark_job job = make_job(bench, bench->decode, bench->workers_max);
    struct loader_benchmark result = {0};
    uint64_t ns[FIRST_BATCH_RUNS];
    int status = 0;
    job.ns_max = 0;
    job.is_one_epoch = true;
    job.options.position = position;
    for (int i = 0; !status && i < FIRST_BATCH_RUNS; i++) {
        status = loader_benchmark_run(&job, &result, err);
        ns[i] = status ? 0 : result.first_batch_ns;
    }
    qsort(ns, FIRST_BATCH_RUNS, sizeof ns[0], compare_u64);
    assert(bench->first_batches_count < BENCH_FIRST_BATCHES_MAX);
    bench->first_batches[bench->first_batches_count++] = (struct bench_first_batch){
        label, position, result.first_batch_samples_count, ns[FIRST_BATCH_RUNS / 2]};
    return status;
}

/* A loader opened mid-step delivers only the rest of the step. */
static int measure_first_batches(struct bench_loader *bench, struct err *err)
{
    uint64_t middle = bench->positions / 2 / bench->batch * bench->batch;
    int status = measure_first_batch(bench, "at the start", 0, err);
    if (!status && middle > 0)
        status = measure_first_batch(bench, "in the middle of an epoch", middle, err);
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
    return status ? status : measure_first_batches(bench, err);
}

double bench_loader_best_rate(const struct bench_loader *bench)
{
    double best = 0;
    for (size_t i = 0; i < bench->rows_count; i++) {
        double row_rate = bench_row_rate(&bench->rows[i], BENCH_WALL_TIME);
        best = bench->rows[i].matches_training && row_rate > best ? row_rate : best;
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

static int read_description(struct bench_loader *bench, struct io *io, struct err *err)
{
    struct dataset *dataset;
    int status = dataset_open(io, bench->dataset, &dataset, err);
    if (status)
        return status;
    bench->samples = dataset->samples;
    bench->sample_bytes =
        (double)dataset_file_bytes(dataset) / (double)(dataset->samples ? dataset->samples : 1);
    bench->decode = dataset->text.element[0] ? LOADER_TOKENS
                    : has_photos(dataset)    ? LOADER_IMAGE
                                             : LOADER_BYTES;
    dataset_close(dataset);
    return 0;
}

static int count_positions(struct bench_loader *bench, struct err *err)
{
    struct loader_options options = make_job(bench, bench->decode, 1).options;
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
    int status = read_description(bench, io, err);
    return status ? status : count_positions(bench, err);
}
