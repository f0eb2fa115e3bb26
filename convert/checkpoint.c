/*
 * checkpoint — see checkpoint.h.
 *
 * The target's image is `[header][tensors in canonical order]`. The tensors' bytes come as one stream, whatever chunks they lie in,
 * through two buffers: one is filled while the other is written.
 */
#include "convert/checkpoint.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "ckpt/flat.h"
#include "ckpt/hash.h"
#include "ckpt/only.h"
#include "ckpt/reader.h"
#include "ckpt/safetensors.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* With the reader's own 32 MiB this is all the memory but for header and manifest. */
enum { BUFFER_BYTES = 8 << 20, BUFFERS_COUNT = 2 };

/* One conversion. Owns all but io, options. */
struct job {
    struct io *io;
    const struct convert_checkpoint_options *options;
    struct ckpt_reader *reader;
    struct safetensors_entry *entries;      /* in the order of the file */
    const struct manifest_tensor **tensors; /* the same */
    uint64_t count, cast_count;
    struct str header;
    uint64_t file_bytes;
    struct flat flat;
    struct io_queue *queue;
    struct io_set *set;
    struct io_file *file; /* of the set */
    char *buffers[BUFFERS_COUNT];
    struct io_request requests[BUFFERS_COUNT];
    bool under_way[BUFFERS_COUNT];
};

static const char *wanted(const struct job *job)
{
    return job->options->only ? job->options->only : "model";
}

static int compare_entries(const void *a, const void *b)
{
    return safetensors_compare(a, b);
}

static int plan(struct job *job, struct err *err)
{
    const struct manifest *manifest = ckpt_reader_manifest(job->reader);
    /* transformers asks for this key; the tensors are those of the PyTorch layout: row-major, as torch names dtypes */
    static const char *const metadata[][2] = {{"format", "pt"}};
    job->entries = calloc(manifest->tensors_count + 1, sizeof *job->entries);
    job->tensors = calloc(manifest->tensors_count + 1, sizeof(const struct manifest_tensor *));
    if (!job->entries || !job->tensors)
        return err_set(err, -ENOMEM, "out of memory for %llu tensors",
                       (unsigned long long)manifest->tensors_count);
    for (uint64_t i = 0; i < manifest->tensors_count; i++) {
        const struct manifest_tensor *tensor = &manifest->tensors[i];
        if (!only_selects(wanted(job), tensor->name))
            continue;
        struct safetensors_entry *entry = &job->entries[job->count++];
        *entry = (struct safetensors_entry){.name = tensor->name,
                                            .dtype = flat_dtype(&job->options->cast, tensor->dtype),
                                            .rank = tensor->rank};
        if (entry->dtype != tensor->dtype) {
            job->cast_count++;
            log_line(job->options->log, LOG_DEBUG, "%s: %s becomes %s", tensor->name,
                     dtype_name(tensor->dtype), dtype_name(entry->dtype));
        }
        memcpy(entry->shape, tensor->shape, sizeof entry->shape);
    }
    if (job->count == 0) {
        err_set(err, -ENOENT, "no tensor to convert");
        err_at(err, job->options->source, ERR_NO_OFFSET);
        err_expected(err, "names that match \"%.100s\"", wanted(job));
        err_advise(err, "see the names with `millrace inspect`");
        return -ENOENT;
    }
    qsort(job->entries, job->count, sizeof *job->entries, compare_entries);
    for (uint64_t i = 0; i < job->count; i++)
        job->tensors[i] = manifest_find(manifest, job->entries[i].name);
    return safetensors_encode(job->entries, job->count, metadata, 1, SAFETENSORS_ALIGN_BYTES, &job->header,
                              &job->file_bytes, err);
}

static int prepare(struct job *job, struct err *err)
{
    struct io_set_options set = {
        .path = job->options->target, .single_file = true, .replace = job->options->force};
    int status = job->io->ops->set_begin(job->io, &set, &job->set, err);
    if (!status)
        status = job->io->ops->set_create(job->set, "", job->file_bytes, &job->file, err);
    if (!status)
        status = job->io->ops->queue_open(job->io, BUFFERS_COUNT, &job->queue, err);
    if (!status)
        status = flat_init(&job->flat, job->reader, job->tensors, job->count, &job->options->cast, err);
    for (int i = 0; i < BUFFERS_COUNT && !status; i++) {
        job->buffers[i] = aligned_alloc(IO_ALIGN_BYTES, BUFFER_BYTES);
        if (!job->buffers[i])
            status = err_set(err, -ENOMEM, "out of memory to convert a checkpoint");
    }
    return status;
}

/* Until the buffer is free again. */
static int await(struct job *job, int buffer, struct err *err)
{
    struct io_request *done[BUFFERS_COUNT];
    int status = 0;
    while (job->under_way[buffer]) {
        int count = job->io->ops->reap(job->queue, done, BUFFERS_COUNT, 1, IO_FOREVER);
        if (count < 0)
            return err_errno(err, count, "could not wait for writes");
        for (int i = 0; i < count; i++) {
            job->under_way[done[i] - job->requests] = false;
            if (done[i]->result >= 0 || status)
                continue;
            status = err_errno(err, (int)done[i]->result, "could not write");
            err_at(err, job->options->target, (int64_t)done[i]->offset);
        }
    }
    return status;
}

static int submit(struct job *job, int buffer, uint64_t offset, void *data, size_t bytes, struct err *err)
{
    struct io_request *request = &job->requests[buffer];
    *request = (struct io_request){.kind = IO_WRITE,
                                   .file = job->file,
                                   .offset = offset,
                                   .data = data,
                                   .bytes = bytes,
                                   .flags = IO_ONCE};
    int taken = job->io->ops->submit(job->queue, &request, 1);
    assert(taken != 0); /* the queue is as deep as there are buffers */
    if (taken < 0)
        return err_errno(err, taken, "a write could not be submitted");
    job->under_way[buffer] = true;
    return 0;
}

/* Zeros up to a multiple of 4 KiB; the seal cuts them off. */
static size_t pad(char *buffer, size_t bytes)
{
    size_t padded = bytes_round_up(bytes, IO_ALIGN_BYTES);
    memset(buffer + bytes, 0, padded - bytes);
    return padded;
}

/* Verifying reads the source and what was made of it once more. */
static uint64_t bytes_to_do(const struct job *job)
{
    return job->file_bytes * (job->options->verify ? 3 : 1);
}

static int write_all(struct job *job, struct err *err)
{
    uint64_t at = job->header.bytes;
    int status = submit(job, 0, 0, job->header.data, job->header.bytes, err), buffer = 0;
    while (!status && at < job->file_bytes) {
        size_t bytes = 0;
        buffer = (buffer + 1) % BUFFERS_COUNT;
        status = await(job, buffer, err);
        if (!status) /* full but for the last: canonical order keeps elements aligned to their size */
            status = flat_read(&job->flat, job->buffers[buffer], BUFFER_BYTES, &bytes, err);
        if (!status)
            status = submit(job, buffer, at, job->buffers[buffer], pad(job->buffers[buffer], bytes), err);
        at += bytes;
        if (!status && job->options->progress)
            job->options->progress(job->options->progress_context, at, bytes_to_do(job));
    }
    for (int i = 0; i < BUFFERS_COUNT; i++) {
        int awaited = await(job, i, status ? NULL : err);
        status = status ? status : awaited;
    }
    return status;
}

static bool is_any(const void *context, const char *name)
{
    (void)context;
    (void)name;
    return true;
}

/* Reads the result back, before it has its name: the same tensors, by the same hash. */
static int compare(struct job *job, struct err *err)
{
    struct ckpt_reader *target;
    struct hash128 expected, found;
    uint64_t expected_count = 0, found_count = 0;
    char text[HASH128_HEX_BYTES];
    int status = reader_open_any(job->io, job->io->ops->set_place(job->set), &target, job->options->log, err);
    if (status)
        return status;
    struct ckpt_watch watch = {job->options->progress, job->options->progress_context};
    struct hash_watch watched = {&watch, job->file_bytes, bytes_to_do(job)};
    status = hash_tensors(job->reader, only_selects, wanted(job), &job->options->cast, &watched,
                          &expected_count, &expected, err);
    if (!status)
        status = hash_tensors(target, is_any, NULL, NULL, &watched, &found_count, &found, err);
    ckpt_reader_close(target);
    if (status || (expected_count == found_count && expected.high == found.high && expected.low == found.low))
        return status;
    err_set(err, -EBADMSG, "the written file differs from the checkpoint");
    err_at(err, job->options->target, ERR_NO_OFFSET);
    err_expected(err, "hash %s", hash128_format(expected, text));
    err_found(err, "%s", hash128_format(found, text));
    err_advise(err, "nothing was published; convert again: the disk or the memory may be failing");
    return -EBADMSG;
}

/* The file takes its name once its bytes are durable and, where that is asked for, compared. */
static int publish(struct job *job, struct err *err)
{
    int status = job->io->ops->set_seal(job->set, job->file, job->file_bytes, err);
    if (!status && job->options->verify)
        status = compare(job, err);
    if (status)
        return status;
    status = job->io->ops->set_publish(job->set, err);
    job->set = NULL;
    return status;
}

static void release(struct job *job)
{
    if (job->queue)
        job->io->ops->queue_close(job->queue);
    job->io->ops->set_abort(job->set);
    flat_deinit(&job->flat);
    ckpt_reader_close(job->reader);
    str_deinit(&job->header);
    free(job->entries);
    free(job->tensors);
    for (int i = 0; i < BUFFERS_COUNT; i++)
        free(job->buffers[i]);
}

int convert_checkpoint_full(struct io *io, const struct convert_checkpoint_options *options,
                            struct convert_checkpoint_result *ret_result, struct err *err)
{
    uint64_t begun_ns = clock_now_ns();
    struct job job = {.io = io, .options = options};
    int status = reader_open_any(io, options->source, &job.reader, options->log, err);
    if (!status)
        status = plan(&job, err);
    if (!status)
        status = prepare(&job, err);
    if (!status)
        status = write_all(&job, err);
    if (!status)
        status = publish(&job, err);
    if (!status)
        *ret_result = (struct convert_checkpoint_result){
            .tensors_count = job.count,
            .written_bytes = job.file_bytes,
            .cast_count = job.cast_count,
            .seconds = clock_seconds(clock_now_ns() - begun_ns),
        };
    release(&job);
    return status;
}
