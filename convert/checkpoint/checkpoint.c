/*
 * checkpoint — see checkpoint.h.
 *
 * The target file is `[header][tensors in canonical order]`. The tensors' bytes form one stream.
 * Pieces (pieces.h) ignore tensor boundaries.
 */
#include "convert/checkpoint/checkpoint.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "ckpt/format/safetensors.h"
#include "ckpt/load/hash.h"
#include "ckpt/load/reader.h"
#include "ckpt/load/tensor_filter.h"
#include "ckpt/load/tensor_stream.h"
#include "ckpt/save/consolidated.h"
#include "convert/checkpoint/checkpoint_target.h"
#include "convert/checkpoint/identity.h"
#include "convert/checkpoint/piece_job.h"
#include "io/file_util.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Owns all members except io and options. */
struct job {
    struct io *io;
    const struct convert_checkpoint_options *options;
    struct ckpt_reader *reader;
    struct safetensors_entry *entries; /* both in file order */
    const struct manifest_tensor **tensors;
    uint64_t tensors_count, cast_count, kept_bytes;
    struct str header;
    uint64_t file_bytes;
    struct piece *piece_list; /* covers the file after the header */
    uint64_t pieces_count;
    struct piece_job piece_job;
    struct tensor_stream streams[PIECES_WORKERS_MAX];
    struct io_transaction *transaction;
    struct io_file *file; /* owned by the transaction */
    struct ckpt_progress progress;
    struct hash_progress verify_progress;
};

static const char *selection(const struct job *job)
{
    return job->options->selection ? job->options->selection : "model";
}

static int compare_entries(const void *a, const void *b)
{
    return safetensors_compare(a, b);
}

static int plan_tensors(struct job *job, struct err *err)
{
    const struct manifest *manifest = ckpt_reader_manifest(job->reader);
    job->entries = calloc(manifest->tensors_count + 1, sizeof *job->entries);
    job->tensors = calloc(manifest->tensors_count + 1, sizeof(const struct manifest_tensor *));
    if (!job->entries || !job->tensors)
        return err_set(err, -ENOMEM, "out of memory for %llu tensors",
                       (unsigned long long)manifest->tensors_count);
    for (uint64_t i = 0; i < manifest->tensors_count; i++) {
        const struct manifest_tensor *tensor = &manifest->tensors[i];
        if (!tensor_filter_matches(selection(job), tensor->name))
            continue;
        struct safetensors_entry *entry = &job->entries[job->tensors_count++];
        *entry = (struct safetensors_entry){
            .name = tensor->name,
            .dtype = tensor_stream_dtype(&job->options->cast, tensor->dtype),
            .rank = tensor->rank};
        if (entry->dtype != tensor->dtype) {
            job->cast_count++;
            log_line(job->options->log, LOG_DEBUG, "%s: converting %s to %s", tensor->name,
                     dtype_name(tensor->dtype), dtype_name(entry->dtype));
        }
        memcpy(entry->shape, tensor->shape, sizeof entry->shape);
    }
    if (job->tensors_count == 0) {
        err_set(err, -ENOENT, "there is no tensor to convert");
        err_at(err, job->options->source, ERR_NO_OFFSET);
        err_expected(err, "names that match \"%.100s\"", selection(job));
        err_advise(err, "run `millrace inspect` to see the names");
        return -ENOENT;
    }
    qsort(job->entries, job->tensors_count, sizeof *job->entries, compare_entries);
    for (uint64_t i = 0; i < job->tensors_count; i++)
        job->tensors[i] = manifest_find_tensor(manifest, job->entries[i].name);
    return consolidated_encode_header(job->entries, job->tensors_count, &job->header,
                                      &job->file_bytes, err);
}

static int cut_pieces(struct job *job, struct err *err)
{
    uint64_t at = job->header.bytes;
    job->pieces_count = (job->file_bytes - at + PIECE_BYTES - 1) / PIECE_BYTES;
    job->piece_list = calloc(job->pieces_count + 1, sizeof *job->piece_list);
    if (!job->piece_list)
        return err_set(err, -ENOMEM, "out of memory for %llu pieces",
                       (unsigned long long)job->pieces_count);
    for (uint64_t i = 0; i < job->pieces_count; i++, at += PIECE_BYTES)
        job->piece_list[i] = (struct piece){at, bytes_min(PIECE_BYTES, job->file_bytes - at)};
    return 0;
}

/* Returns the first tensor that ends after this file offset. */
static uint64_t find_entry(const struct job *job, uint64_t offset)
{
    uint64_t low = 0, high = job->tensors_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (job->entries[middle].offset_bytes + job->entries[middle].size_bytes > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Canonical order aligns elements, so pieces end between elements. */
static int make_piece(void *context, unsigned worker, uint64_t number, void *data, struct err *err)
{
    struct job *job = context;
    const struct piece *piece = &job->piece_list[number];
    uint64_t index = find_entry(job, piece->offset_bytes);
    const struct safetensors_entry *entry = &job->entries[index];
    size_t bytes = 0;
    tensor_stream_seek(&job->streams[worker], index,
                       (piece->offset_bytes - entry->offset_bytes) / dtype_bytes(entry->dtype));
    int status = tensor_stream_read(&job->streams[worker], data, piece->bytes, &bytes, err);
    assert(status || bytes == piece->bytes);
    return status;
}

/* Verification reads the source and the result again. */
static uint64_t progress_bytes_total(const struct job *job)
{
    return job->file_bytes * (job->options->verify ? 3 : 1);
}

static int open_pieces(struct job *job, const char *owner_id, struct err *err)
{
    struct pieces_options pieces = {.io = job->io,
                                    .pieces = job->piece_list,
                                    .buffer_bytes = PIECE_BYTES,
                                    .make = make_piece,
                                    .context = job,
                                    .progress_bytes = progress_bytes_total(job)};
    int status = piece_job_open(&job->piece_job, job->options, job->reader, owner_id,
                                job->pieces_count, &pieces, err);
    for (unsigned w = 0; w < pieces.workers_count && !status; w++)
        status = tensor_stream_init(&job->streams[w], job->piece_job.readers[w], job->tensors,
                                    job->tensors_count, &job->options->cast, err);
    return status;
}

static int write_header(struct job *job, struct err *err)
{
    struct io_queue *queue;
    int status = job->io->ops->queue_open(job->io, 1, &queue, err);
    if (status)
        return status;
    status = io_write_exact(queue, job->io, job->file, job->options->target, 0, job->header.data,
                            job->header.bytes, err);
    job->io->ops->queue_close(queue);
    return status;
}

static int write_target(struct job *job, const char *owner_id, struct err *err)
{
    const struct convert_checkpoint_options *o = job->options;
    struct io_transaction_options transaction = {.path = o->target,
                                                 .single_file = true,
                                                 .replace = o->force,
                                                 .owner_id = owner_id,
                                                 .resume =
                                                     o->resume ? IO_RESUME_NOW : IO_RESUME_LATER};
    int status = job->io->transactions->begin(job->io, &transaction, &job->transaction, err);
    if (!status)
        status =
            job->io->transactions->create(job->transaction, "", job->file_bytes, &job->file, err);
    if (!status)
        status = open_pieces(job, owner_id, err);
    if (!status)
        status = write_header(job, err);
    if (!status)
        status = pieces_process(job->piece_job.pieces, job->file, o->target, 0, job->pieces_count,
                                false, err);
    if (!status)
        job->kept_bytes = pieces_kept_bytes(job->piece_job.pieces);
    return status;
}

/* Frees memory for verification. */
static void close_pieces(struct job *job)
{
    piece_job_close_pieces(&job->piece_job);
    for (unsigned w = 0; w < PIECES_WORKERS_MAX; w++)
        tensor_stream_deinit(&job->streams[w]);
}

static bool match_all(const void *context, const char *name)
{
    (void)context;
    (void)name;
    return true;
}

struct tensors_hash {
    uint64_t count;
    struct hash128 hash;
};

static bool hashes_equal(const struct tensors_hash *a, const struct tensors_hash *b)
{
    return a->count == b->count && a->hash.high == b->hash.high && a->hash.low == b->hash.low;
}

/* done_bytes, bytes: for progress. */
static int hash_source(struct job *job, uint64_t done_bytes, uint64_t bytes,
                       struct tensors_hash *ret_hash, struct err *err)
{
    job->progress = (struct ckpt_progress){job->options->progress, job->options->progress_context};
    job->verify_progress =
        (struct hash_progress){&job->progress, done_bytes, bytes, job->options->stop};
    return hash_tensors(job->reader, tensor_filter_matches, selection(job), &job->options->cast,
                        &job->verify_progress, &ret_hash->count, &ret_hash->hash, err);
}

/* Call after hash_source. */
static int hash_target(struct job *job, const char *path, struct tensors_hash *ret_hash,
                       struct err *err)
{
    struct ckpt_reader *target;
    int status = reader_open_path(job->io, path, &target, job->options->log, err);
    if (status)
        return status;
    status = hash_tensors(target, match_all, NULL, NULL, &job->verify_progress, &ret_hash->count,
                          &ret_hash->hash, err);
    ckpt_reader_close(target);
    return status;
}

static int verify_target(struct job *job, const char *path, struct err *err)
{
    struct tensors_hash expected = {0}, found = {0};
    char text[HASH128_HEX_BYTES];
    int status = hash_source(job, job->file_bytes, progress_bytes_total(job), &expected, err);
    if (!status)
        status = hash_target(job, path, &found, err);
    if (status || hashes_equal(&expected, &found))
        return status;
    err_set(err, -EBADMSG, "the written file differs from the checkpoint");
    err_at(err, job->options->target, ERR_NO_OFFSET);
    err_expected(err, "hash %s", hash128_format(expected.hash, text));
    err_found(err, "%s", hash128_format(found.hash, text));
    err_advise(err, "nothing was committed; convert again: the disk or the memory may be failing");
    return -EBADMSG;
}

static int commit(struct job *job, struct err *err)
{
    int status = job->io->transactions->finalize(job->transaction, job->file, job->file_bytes, err);
    if (!status && job->options->verify) /* verify before the file gets its final name */
        status = verify_target(job, job->io->transactions->staging_path(job->transaction), err);
    if (status)
        return status;
    status = job->io->transactions->commit(job->transaction, err);
    job->transaction = NULL;
    return status;
}

static int check_existing_target(struct job *job, const char *owner_id, bool *ret_is_done,
                                 struct err *err)
{
    struct io_stat info;
    struct piece_journal *journal;
    struct piece_journal_options journal_options = {
        .io = job->io, .target = job->options->target, .owner_id = owner_id, .resume = true};
    *ret_is_done = false;
    if (!job->options->resume || job->options->force ||
        job->io->names->stat(job->io, job->options->target, &info, NULL) ||
        info.kind != IO_ENTRY_FILE)
        return 0;
    struct tensors_hash expected = {0}, found = {0};
    int status = hash_source(job, 0, 2 * job->file_bytes, &expected, err);
    if (status)
        return status;
    status = hash_target(job, job->options->target, &found, err);
    /* these errors mean that the target is not a checkpoint */
    if (status && status != -EBADMSG && status != -EINVAL)
        return status;
    if (status || !hashes_equal(&expected, &found))
        return checkpoint_target_reject_existing(job->options->target, err);
    *ret_is_done = true;
    job->kept_bytes = job->file_bytes;
    status = piece_journal_open(&journal_options, &journal, err);
    if (!status)
        piece_journal_close(journal, false);
    return status;
}

/* Logs if the step already contains this file because its layout is `full`. */
static void log_existing_file(const struct job *job)
{
    const struct manifest *manifest = ckpt_reader_manifest(job->reader);
    const struct manifest_file *file = consolidated_find_file(manifest);
    if (!file || file->size_bytes != job->file_bytes || job->cast_count > 0)
        return;
    for (uint64_t i = 0; i < job->tensors_count; i++)
        for (uint64_t c = 0; c < job->tensors[i]->chunks_count; c++)
            if (&manifest->files[job->tensors[i]->chunks[c].file] != file)
                return;
    log_line(job->options->log, LOG_INFO, "copied and verified an existing file of the step: %s/%s",
             ckpt_reader_path(job->reader), file->name);
}

static int convert_to_file(struct job *job, struct err *err)
{
    char owner_id[IDENTITY_BYTES], options_text[64], text[HASH128_HEX_BYTES];
    bool is_done = false;
    /* covers name, dtype, shape and offset of every tensor */
    snprintf(options_text, sizeof options_text, "full %s",
             hash128_format(hash_128(job->header.data, job->header.bytes), text));
    int status = identity_compute(job->reader, options_text, owner_id, err);
    if (!status)
        status = check_existing_target(job, owner_id, &is_done, err);
    if (status || is_done)
        return status;
    status = write_target(job, owner_id, err);
    close_pieces(job);
    return status ? status : commit(job, err);
}

/* keep: leave written data for a resume. */
static void deinit_job(struct job *job, bool keep)
{
    close_pieces(job);
    if (keep)
        job->io->transactions->leave(job->transaction);
    else
        job->io->transactions->abort(job->transaction);
    piece_journal_close(job->piece_job.journal, keep); /* after the data is committed or removed */
    ckpt_reader_close(job->reader);
    str_deinit(&job->header);
    free(job->entries);
    free(job->tensors);
    free(job->piece_list);
}

int convert_checkpoint_full(struct io *io, const struct convert_checkpoint_options *options,
                            struct convert_checkpoint_result *ret_result, struct err *err)
{
    uint64_t begun_ns = clock_now_ns();
    struct job job = {.io = io, .options = options};
    struct io *source_io = options->source_io ? options->source_io : io;
    int status = reader_open_path(source_io, options->source, &job.reader, options->log, err);
    if (!status)
        status = checkpoint_target_check_file(io, source_io, ckpt_reader_path(job.reader),
                                              options->target, err);
    if (!status)
        status = plan_tensors(&job, err);
    if (!status)
        status = cut_pieces(&job, err);
    if (!status)
        status = convert_to_file(&job, err);
    if (!status) {
        log_existing_file(&job);
        *ret_result = (struct convert_checkpoint_result){
            .tensors_count = job.tensors_count,
            .written_bytes = job.file_bytes,
            .cast_count = job.cast_count,
            .kept_bytes = job.kept_bytes,
            .seconds = clock_seconds(clock_now_ns() - begun_ns),
        };
    }
    bool keep = status == -EINTR && job.transaction && job.piece_job.journal;
    if (status == -EINTR)
        *ret_result = (struct convert_checkpoint_result){.is_resumable = keep};
    deinit_job(&job, keep);
    return status;
}
