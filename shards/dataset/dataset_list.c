/*
 * dataset_list — see dataset_list.h.
 */
#include "shards/dataset/dataset_list.h"

#include "io/zstd/seekable_io.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* per tar; one more line counts the rest */
enum { SKIP_LINES_MAX = 4 };

int dataset_list_paths(struct dataset *dataset, const struct url_list *paths, struct err *err)
{
    dataset->shards = calloc(paths->count + 1, sizeof *dataset->shards);
    for (size_t i = 0; dataset->shards && i < paths->count; i++) {
        dataset->shards[i].url = strdup(paths->urls[i]);
        if (!dataset->shards[i].url)
            break;
        dataset->shards_count = i + 1;
    }
    return dataset->shards && dataset->shards_count == paths->count
               ? 0
               : err_set(err, -ENOMEM, "out of memory for a list of shards");
}

int dataset_list_urls(struct dataset *dataset, const char *text, bool is_pattern, struct err *err)
{
    struct url_list list = {0};
    int status = is_pattern ? url_list_expand(&list, text, err) : url_list_add(&list, text, err);
    if (!status)
        status = dataset_list_paths(dataset, &list, err);
    url_list_deinit(&list);
    return status;
}

/* Keeps the dataset's fields in byte order. */
static int add_extension(struct dataset *dataset, const char *extension, const char *path,
                         struct err *err)
{
    uint32_t at = 0;
    while (at < dataset->fields_count && strcmp(dataset->fields[at], extension) < 0)
        at++;
    if (at < dataset->fields_count && strcmp(dataset->fields[at], extension) == 0)
        return 0;
    if (dataset->fields_count == SHARD_FIELDS_MAX) {
        err_set(err, -EBADMSG, "the shards have too many different extensions");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "at most %d", SHARD_FIELDS_MAX);
        return -EBADMSG;
    }
    memmove(dataset->fields[at + 1], dataset->fields[at],
            (dataset->fields_count - at) * sizeof dataset->fields[0]);
    strcpy(dataset->fields[at], extension);
    dataset->fields_count++;
    return 0;
}

static int add_fields(struct dataset *dataset, const struct shard *shard, uint64_t *total_bytes,
                      struct err *err)
{
    const struct shard_index *index = shard->index;
    for (uint32_t f = 0; f < shard_index_fields(index); f++) {
        int status = add_extension(dataset, shard_index_extension(index, f), shard->path, err);
        if (status)
            return status;
        for (uint64_t s = 0; s < shard_index_samples(index); s++) {
            struct shard_field field;
            shard_index_field(index, s, f, &field);
            *total_bytes += field.size_bytes;
        }
    }
    return 0;
}

struct skip_log {
    const struct log *log;
    uint64_t count;
    char last[ERR_LINE_BYTES_MAX];
};

static void log_skipped(void *context, const struct err *what)
{
    struct skip_log *skip_log = context;
    err_format(what, skip_log->last, sizeof skip_log->last);
    if (skip_log->count++ < SKIP_LINES_MAX)
        log_line(skip_log->log, LOG_WARN, "damaged tar: %s", skip_log->last);
}

static int open_shard(struct io *io, struct dataset *dataset, const char *path,
                      const struct dataset_scan_options *options, struct shard **ret_shard,
                      struct err *err)
{
    struct skip_log skip_log = {.log = options->log, .last = ""};
    const struct salvage salvage = {.on_skip = log_skipped, .context = &skip_log};
    const struct shard_open_options how = {.salvage = options->salvages ? &salvage : NULL};
    int status = shard_open_with(io, path, &how, ret_shard, err);
    if (status)
        return status;
    if (skip_log.count > SKIP_LINES_MAX)
        log_line(options->log, LOG_WARN,
                 "damaged tar: %" PRIu64 " more warnings like this, the last: %s",
                 skip_log.count - SKIP_LINES_MAX, skip_log.last);
    dataset->left_out_count += skip_log.count;
    return 0;
}

static int scan_shard(struct io *io, struct dataset *dataset, uint64_t number, bool check_counts,
                      const struct dataset_scan_options *options, uint64_t *total_bytes,
                      struct err *err)
{
    struct dataset_shard *entry = &dataset->shards[number];
    struct shard *shard = NULL;
    char path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    int status = dataset_shard_path(dataset, number, path, err);
    if (!status)
        status = open_shard(io, dataset, path, options, &shard, err);
    if (!status)
        status = io->names->stat(io, path, &info, err);
    if (status)
        goto out;
    if (check_counts && !shard->is_partial && shard->trailer.samples != entry->samples) {
        status = err_set(err, -EBADMSG, "the shard's sample count differs from its list");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "%" PRIu64, entry->samples);
        err_found(err, "%" PRIu64, shard->trailer.samples);
        err_advise(err, "repair %.200s, or copy the shard again", dataset->path);
        goto out;
    }
    entry->samples = shard->trailer.samples;
    entry->file_bytes = info.size_bytes;
    entry->uncompressed_bytes = shard->trailer.file_bytes;
    entry->index_crc32c = shard->identity_crc32c;
    entry->index_offset = shard->is_plain_tar ? 0 : shard->trailer.index_offset;
    entry->is_partial = shard->is_partial;
    entry->lacks_xxh3 = true;
    entry->first_sample = dataset->samples;
    dataset->samples += entry->samples;
    status = add_fields(dataset, shard, total_bytes, err);
out:
    shard_close(shard);
    return status;
}

/* If no sample is left, returns the error of the first damaged shard. */
static int check_salvaged(struct io *io, const struct dataset *dataset, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    struct shard *shard = NULL;
    uint64_t i = 0;
    while (i < dataset->shards_count && !dataset->shards[i].is_partial)
        i++;
    if (dataset->samples > 0 || i == dataset->shards_count)
        return 0;
    int status = dataset_shard_path(dataset, i, path, err);
    if (!status)
        status = shard_open(io, path, &shard, err);
    shard_close(shard);
    return status;
}

int dataset_list_scan(struct io *io, struct dataset *dataset, bool check_counts,
                      const struct dataset_scan_options *options, struct err *err)
{
    struct io *shards_io;
    uint64_t total_bytes = 0;
    int status = seekable_io_open(io, 1, &shards_io, err);
    if (status)
        return status;
    dataset->samples = 0;
    for (uint64_t i = 0; i < dataset->shards_count && !status; i++)
        status = scan_shard(shards_io, dataset, i, check_counts, options, &total_bytes, err);
    if (!status)
        status = check_salvaged(shards_io, dataset, err);
    io_close(shards_io);
    if (status)
        return status;
    dataset->mean_sample_bytes = dataset->samples ? total_bytes / dataset->samples : 0;
    return dataset_fingerprint(dataset->shards, dataset->shards_count, &dataset->fingerprint, err);
}
