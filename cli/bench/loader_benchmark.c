#include "cli/bench/loader_benchmark.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "image/pipeline/check.h"
#include "shards/dataset/dataset.h"

#include <errno.h>

enum {
    WARMUP_BATCHES = 128, /* read-ahead adapts to the first reads */
    BLOCK_BYTES = 1 << 20,
    DEPTH = 32,
};

static bool is_stopped(const struct loader_benchmark_job *job)
{
    return job->stop && atomic_load(job->stop);
}

static int store_result(int status, const struct loader_benchmark_job *job,
                        const struct loader_benchmark *result, struct loader_benchmark *ret_result,
                        struct err *err)
{
    if (!status && is_stopped(job))
        status = err_set(err, -EINTR, "stopped on request");
    if (!status)
        *ret_result = *result;
    return status;
}

static int take_batch(struct loader *loader, struct loader_benchmark *result, bool *ret_has_batch,
                      struct err *err)
{
    const struct batch *batch;
    int status = loader_next(loader, &batch, err);
    *ret_has_batch = status == LOADER_BATCH;
    if (!*ret_has_batch)
        return status;
    if (result->first_batch_samples_count == 0)
        result->first_batch_samples_count = batch->items_count;
    result->samples_count += batch->items_count;
    loader_release(loader, batch);
    return 0;
}

/* Counts no samples. Read-ahead grows mostly here; the measurement includes later growth. */
static int warm_up(struct loader *loader, const struct loader_benchmark_job *job,
                   struct loader_benchmark *result, struct err *err)
{
    uint64_t began_ns = clock_now_ns();
    bool has_batch = true;
    int status = 0;
    for (uint32_t i = 0; !status && has_batch && i < WARMUP_BATCHES && !is_stopped(job) &&
                         clock_now_ns() - began_ns < job->ns_max / 2;
         i++)
        status = take_batch(loader, result, &has_batch, err);
    result->samples_count = 0;
    return status;
}

static enum loader_stage limiting_stage(const struct loader_stats *before,
                                        const struct loader_stats *after)
{
    enum loader_stage limit = LOADER_STAGE_CONSUMER;
    for (int i = 0; i < LOADER_STAGE_COUNT; i++)
        if (after->stage_ns[i] - before->stage_ns[i] >
            after->stage_ns[limit] - before->stage_ns[limit])
            limit = (enum loader_stage)i;
    return limit;
}

/* Runs for ns_max and until at least one read, because batches that are already complete do not
 * measure reading, or for an epoch that takes none, because all data stays in memory. */
static int take_measured_batches(struct loader *loader, const struct loader_benchmark_job *job,
                                 struct loader_benchmark *result, struct err *err)
{
    uint64_t reads_count = job->is_one_epoch ? 0 : loader_stats(loader).reads_count;
    uint64_t epoch_samples = loader_shape(loader).samples;
    uint64_t began_ns = clock_now_ns();
    bool has_batch = true;
    int status = 0;
    do {
        status = take_batch(loader, result, &has_batch, err);
    } while (!status && has_batch && !is_stopped(job) &&
             (clock_now_ns() - began_ns < job->ns_max ||
              (loader_stats(loader).reads_count == reads_count &&
               result->samples_count < epoch_samples)));
    return status;
}

int loader_benchmark_run(const struct loader_benchmark_job *job,
                         struct loader_benchmark *ret_result, struct err *err)
{
    struct loader_options options = job->options;
    struct loader_benchmark result = {0};
    struct loader_stats before = {0}, after;
    struct loader *loader;
    options.positions_max = 0;
    options.epochs_max = job->is_one_epoch ? 1 : 0;
    if (job->is_one_epoch)
        io_benchmark_begin(&result.totals);
    int status = loader_open(&options, &loader, err);
    if (status)
        return status;
    if (!job->is_one_epoch) {
        status = warm_up(loader, job, &result, err);
        before = loader_stats(loader);
        io_benchmark_begin(&result.totals);
    }
    if (!status)
        status = take_measured_batches(loader, job, &result, err);
    io_benchmark_end(&result.totals);
    after = loader_stats(loader);
    loader_close(loader);
    result.totals.bytes = after.wanted_bytes - before.wanted_bytes;
    result.totals.operations_count = after.reads_count - before.reads_count;
    result.first_batch_ns = after.first_batch_ns;
    result.limit = limiting_stage(&before, &after);
    return store_result(status, job, &result, ret_result, err);
}

static const struct batch_bytes *find_photo(const struct batch_item *item)
{
    for (uint32_t i = 0; i < item->fields_count; i++)
        if (is_image_extension(item->fields[i].extension))
            return &item->fields[i];
    return NULL;
}

static int decode_all(struct image_checker *checker, const struct batch *batch, uint64_t *count,
                      struct err *err)
{
    int status = 0;
    for (uint32_t i = 0; !status && i < batch->items_count; i++) {
        const struct batch_bytes *photo = find_photo(&batch->items[i]);
        if (photo)
            status = image_check(checker, photo->data, photo->bytes, NULL, err);
        *count += photo && !status;
    }
    return status;
}

static int decode_repeatedly(const struct loader_benchmark_job *job, const struct batch *batch,
                             struct loader_benchmark *result, struct err *err)
{
    struct image_checker *checker;
    uint64_t warmup_count = 0;
    int status = image_checker_open(&checker, err);
    if (status)
        return status;
    /* warm-up: the checker's memory grows to fit the largest photo */
    status = decode_all(checker, batch, &warmup_count, err);
    if (!status && warmup_count == 0)
        status = err_set(err, -ENODATA, "the first samples have no photos");
    io_benchmark_begin(&result->totals);
    uint64_t began_ns = clock_now_ns();
    do {
        if (!status)
            status = decode_all(checker, batch, &result->samples_count, err);
    } while (!status && !is_stopped(job) && clock_now_ns() - began_ns < job->ns_max);
    io_benchmark_end(&result->totals);
    image_checker_close(checker);
    return status;
}

int loader_benchmark_decode(const struct loader_benchmark_job *job, uint32_t photos_count,
                            struct loader_benchmark *ret_result, struct err *err)
{
    struct loader_options options = job->options;
    struct loader_benchmark result = {0};
    struct loader *loader;
    const struct batch *batch;
    options.decode = LOADER_BYTES;
    options.batching = (struct batching){.global = photos_count, .micro = photos_count, .ranks = 1};
    options.drop_last = false;
    options.epochs_max = 1;
    options.positions_max = photos_count;
    int status = loader_open(&options, &loader, err);
    if (status)
        return status;
    status = loader_next(loader, &batch, err);
    if (status == LOADER_BATCH) {
        status = decode_repeatedly(job, batch, &result, err);
        loader_release(loader, batch);
    }
    loader_close(loader);
    return store_result(status, job, &result, ret_result, err);
}

static int read_file(struct io *io, const char *path, const struct loader_benchmark_job *job,
                     uint64_t ns_left, struct io_benchmark *totals, struct err *err)
{
    struct io_file *file;
    int status = io->ops->file_open(io, path, &file, err);
    if (status)
        return status;
    uint64_t bytes = io->ops->file_size(file), block_max = bytes_min(bytes, BLOCK_BYTES);
    uint64_t block_bytes = block_max - block_max % IO_ALIGN_BYTES;
    struct io_benchmark_job read_job = {.kind = IO_READ,
                                        .file_bytes = block_bytes ? bytes - bytes % block_bytes : 0,
                                        .block_bytes = block_bytes,
                                        .depth = DEPTH,
                                        .is_one_pass = true,
                                        .ns_max = ns_left,
                                        .stop = job->stop};
    if (block_bytes > 0)
        status = io_benchmark_run(io, file, path, &read_job, totals, err);
    io->ops->file_close(file);
    return status;
}

static int read_files(struct io *io, const struct dataset *dataset,
                      const struct loader_benchmark_job *job, struct io_benchmark *totals,
                      struct err *err)
{
    int status = 0;
    for (uint64_t i = 0; !status && i < dataset->shards_count && totals->elapsed_ns < job->ns_max;
         i++) {
        char path[IO_PATH_BYTES_MAX];
        status = dataset_shard_path(dataset, i, path, err);
        if (!status)
            status = read_file(io, path, job, job->ns_max - totals->elapsed_ns, totals, err);
    }
    return status;
}

int loader_benchmark_read_files(struct io *io, const struct loader_benchmark_job *job,
                                struct loader_benchmark *ret_result, struct err *err)
{
    struct loader_benchmark result = {0};
    struct dataset *dataset;
    int status = dataset_open(io, job->options.dataset, &dataset, err);
    if (status)
        return status;
    uint64_t before;
    do {
        before = result.totals.bytes;
        status = read_files(io, dataset, job, &result.totals, err);
    } while (!status && !job->is_one_epoch && result.totals.bytes > before &&
             result.totals.elapsed_ns < job->ns_max);
    dataset_close(dataset);
    if (!status)
        *ret_result = result;
    return status;
}
