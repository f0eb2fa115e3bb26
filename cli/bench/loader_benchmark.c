#include "cli/bench/loader_benchmark.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "image/pipeline/check.h"
#include "shards/dataset/dataset.h"

#include <errno.h>
#include <string.h>

enum {
    WARMUP_BATCHES = 128, /* covers the first reads and the adaptation to them */
    BLOCK_BYTES = 1 << 20,
    DEPTH = 32,
};

static bool is_stopped(const struct loader_benchmark_job *job)
{
    return job->stop && atomic_load(job->stop);
}

/* Stores the result; -EINTR if the run was stopped. */
static int finish(int status, const struct loader_benchmark_job *job,
                  const struct loader_benchmark *speed, struct loader_benchmark *ret_speed,
                  struct err *err)
{
    if (!status && is_stopped(job))
        status = err_set(err, -EINTR, "stopped on request");
    if (!status)
        *ret_speed = *speed;
    return status;
}

/* Takes and releases one micro-batch. Sets *ret_continues to whether there was one. */
static int take(struct loader *loader, struct loader_benchmark *speed, bool *ret_continues,
                struct err *err)
{
    const struct batch *batch;
    int status = loader_next(loader, &batch, err);
    *ret_continues = status == LOADER_BATCH;
    if (!*ret_continues)
        return status;
    if (speed->first_batch_samples_count == 0)
        speed->first_batch_samples_count = batch->items_count;
    speed->samples_count += batch->items_count;
    loader_release(loader, batch);
    return 0;
}

/* Takes micro-batches, up to a fixed number or for half of the time, without counting samples. Most
 * read-ahead growth happens here; later growth is measured. */
static int warm(struct loader *loader, const struct loader_benchmark_job *job,
                struct loader_benchmark *speed, struct err *err)
{
    uint64_t began_ns = clock_now_ns();
    bool continues = true;
    int status = 0;
    for (uint32_t i = 0; !status && continues && i < WARMUP_BATCHES && !is_stopped(job) &&
                         clock_now_ns() - began_ns < job->ns_max / 2;
         i++)
        status = take(loader, speed, &continues, err);
    speed->samples_count = 0;
    return status;
}

static enum loader_stage limit_between(const struct loader_stats *before,
                                       const struct loader_stats *after)
{
    enum loader_stage limit = LOADER_STAGE_CONSUMER;
    for (int i = 0; i < LOADER_STAGE_COUNT; i++)
        if (after->stage_ns[i] - before->stage_ns[i] >
            after->stage_ns[limit] - before->stage_ns[limit])
            limit = (enum loader_stage)i;
    return limit;
}

/* Runs for at least ns_max and until something has been read, because batches that were already
 * complete do not measure reading. */
static int deliver(struct loader *loader, const struct loader_benchmark_job *job,
                   struct loader_benchmark *speed, struct err *err)
{
    uint64_t reads_count = job->is_one_epoch ? 0 : loader_stats(loader).reads_count;
    uint64_t began_ns = clock_now_ns();
    bool continues = true;
    int status = 0;
    do {
        status = take(loader, speed, &continues, err);
    } while (!status && continues && !is_stopped(job) &&
             (clock_now_ns() - began_ns < job->ns_max ||
              loader_stats(loader).reads_count == reads_count));
    return status;
}

int loader_benchmark_run(const struct loader_benchmark_job *job, struct loader_benchmark *ret_speed,
                         struct err *err)
{
    struct loader_options options = job->options;
    struct loader_benchmark speed = {0};
    struct loader_stats before = {0}, after;
    struct loader *loader;
    options.positions_max = 0;
    options.epochs_max = job->is_one_epoch ? 1 : 0;
    if (job->is_one_epoch)
        io_benchmark_begin(&speed.took);
    int status = loader_open(&options, &loader, err);
    if (status)
        return status;
    if (!job->is_one_epoch) {
        status = warm(loader, job, &speed, err);
        before = loader_stats(loader);
        io_benchmark_begin(&speed.took);
    }
    if (!status)
        status = deliver(loader, job, &speed, err);
    io_benchmark_end(&speed.took);
    after = loader_stats(loader);
    loader_close(loader);
    speed.took.bytes = after.wanted_bytes - before.wanted_bytes;
    speed.took.operations_count = after.reads_count - before.reads_count;
    speed.first_batch_ns = after.first_batch_ns;
    speed.limit = limit_between(&before, &after);
    return finish(status, job, &speed, ret_speed, err);
}

/* Returns the first of a sample's fields that is a photo. */
static const struct batch_bytes *photo_of(const struct batch_item *item)
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
        const struct batch_bytes *photo = photo_of(&batch->items[i]);
        if (photo)
            status = image_check(checker, photo->data, photo->bytes, NULL, err);
        *count += photo && !status;
    }
    return status;
}

static int decode_again(const struct loader_benchmark_job *job, const struct batch *batch,
                        struct loader_benchmark *speed, struct err *err)
{
    struct image_checker *checker;
    uint64_t unused = 0;
    int status = image_checker_open(&checker, err);
    if (status)
        return status;
    /* warm-up: the checker's memory grows to the largest photo's needs */
    status = decode_all(checker, batch, &unused, err);
    if (!status && unused == 0)
        status = err_set(err, -ENODATA, "the first samples have no photos");
    io_benchmark_begin(&speed->took);
    uint64_t began_ns = clock_now_ns();
    do {
        if (!status)
            status = decode_all(checker, batch, &speed->samples_count, err);
    } while (!status && !is_stopped(job) && clock_now_ns() - began_ns < job->ns_max);
    io_benchmark_end(&speed->took);
    image_checker_close(checker);
    return status;
}

int loader_benchmark_decode(const struct loader_benchmark_job *job, uint32_t photos_count,
                            struct loader_benchmark *ret_speed, struct err *err)
{
    struct loader_options options = job->options;
    struct loader_benchmark speed = {0};
    struct loader *loader;
    const struct batch *batch;
    options.decode = LOADER_BYTES;
    options.batching = (struct batching){.global = photos_count, .micro = photos_count, .ranks = 1};
    options.drop_tail = false;
    options.epochs_max = 1;
    options.positions_max = photos_count;
    int status = loader_open(&options, &loader, err);
    if (status)
        return status;
    status = loader_next(loader, &batch, err);
    if (status == LOADER_BATCH)
        status = decode_again(job, batch, &speed, err);
    loader_close(loader);
    return finish(status, job, &speed, ret_speed, err);
}

static int read_file(struct io *io, const char *path, const struct loader_benchmark_job *job,
                     uint64_t ns_left, struct io_benchmark *took, struct err *err)
{
    struct io_file *file;
    int status = io->ops->file_open(io, path, &file, err);
    if (status)
        return status;
    uint64_t bytes = io->ops->file_size(file), least = bytes_min(bytes, BLOCK_BYTES);
    uint64_t block_bytes = least - least % IO_ALIGN_BYTES;
    struct io_benchmark_job reading = {.kind = IO_READ,
                                       .file_bytes = block_bytes ? bytes - bytes % block_bytes : 0,
                                       .block_bytes = block_bytes,
                                       .depth = DEPTH,
                                       .is_one_pass = true,
                                       .ns_max = ns_left,
                                       .stop = job->stop};
    if (block_bytes > 0)
        status = io_benchmark_run(io, file, path, &reading, took, err);
    io->ops->file_close(file);
    return status;
}

static int read_files(struct io *io, const struct dataset *dataset,
                      const struct loader_benchmark_job *job, struct io_benchmark *took,
                      struct err *err)
{
    int status = 0;
    for (uint64_t i = 0; !status && i < dataset->shards_count && took->elapsed_ns < job->ns_max;
         i++) {
        char path[IO_PATH_BYTES_MAX];
        status = dataset_shard_path(dataset, i, path, err);
        if (!status)
            status = read_file(io, path, job, job->ns_max - took->elapsed_ns, took, err);
    }
    return status;
}

int loader_benchmark_plain(struct io *io, const struct loader_benchmark_job *job,
                           struct loader_benchmark *ret_speed, struct err *err)
{
    struct loader_benchmark speed = {0};
    struct dataset *dataset;
    int status = dataset_open(io, job->options.dataset, &dataset, err);
    if (status)
        return status;
    uint64_t before;
    do {
        before = speed.took.bytes;
        status = read_files(io, dataset, job, &speed.took, err);
    } while (!status && !job->is_one_epoch && speed.took.bytes > before &&
             speed.took.elapsed_ns < job->ns_max);
    dataset_close(dataset);
    if (!status)
        *ret_speed = speed;
    return status;
}
