/*
 * checkpoint_hf — see checkpoint.h. Exports a folder that transformers loads.
 *
 * An output tensor comes from one checkpoint tensor, or from q, k and v, and may be transposed. A
 * piece (pieces.h) consists of some of its rows; rows of a transposed tensor are columns of the
 * source. Verification generates all data again and compares it with the files.
 */
#include "convert/checkpoint/checkpoint_hf.h"

#include "base/clock.h"
#include "base/json/jsonx_writer.h"
#include "convert/checkpoint/checked_folder.h"
#include "convert/checkpoint/checkpoint.h"
#include "convert/checkpoint/checkpoint_hf_plan.h"
#include "convert/checkpoint/checkpoint_target.h"
#include "convert/checkpoint/identity.h"
#include "convert/checkpoint/piece_job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_NAME "config.json" /* written last: loaders read it first */

/* Owns all members except io and options. */
struct job {
    struct io *io;
    const struct convert_checkpoint_options *options;
    struct ckpt_reader *reader;
    const struct hf_model *model;
    bool has_tied_head; /* shares the embedding's table */
    struct hf_plan plan;
    uint64_t kept_bytes;
    struct safetensors_entry *entries; /* entries of the current file */
    struct piece *piece_list;          /* [plan.pieces_count], all files */
    uint64_t placed_count;             /* pieces in earlier files */
    struct piece_job piece_job;
    char *columns[PIECES_WORKERS_MAX]; /* per worker: columns of one source part */
    struct checked_folder folder;
};

static int make_plan(struct job *job, struct err *err)
{
    const struct hf_plan_options options = {.reader = job->reader,
                                            .model = job->model,
                                            .cast = &job->options->cast,
                                            .max_file_bytes = job->options->max_file_bytes,
                                            .log = job->options->log};
    int status = hf_plan_init(&job->plan, &options, err);
    if (status)
        return status;
    job->entries = calloc(job->plan.tensors_count + 1, sizeof *job->entries);
    job->piece_list = calloc(job->plan.pieces_count + 1, sizeof *job->piece_list);
    return job->entries && job->piece_list
               ? 0
               : err_set(err, -ENOMEM, "not enough memory to convert a checkpoint");
}

static int load_box(struct job *job, unsigned worker, const struct manifest_tensor *source,
                    const uint64_t start[2], const uint64_t extent[2], void *data, struct err *err)
{
    struct ckpt_tensor box = {.name = source->name,
                              .dtype = tensor_stream_dtype(&job->options->cast, source->dtype),
                              .rank = source->rank,
                              .cast = job->options->cast.is_wanted,
                              .data = data};
    memcpy(box.shape, source->shape, sizeof box.shape);
    memcpy(box.start, start, 2 * sizeof start[0]);
    memcpy(box.extent, extent, 2 * sizeof extent[0]);
    return ckpt_reader_load(job->piece_job.readers[worker], &box, 1, NULL, err);
}

/* The output's rows are the parts' columns. */
static int load_transposed_rows(struct job *job, unsigned worker, const struct hf_rows *rows,
                                char *data, struct err *err)
{
    const struct hf_tensor *tensor = rows->tensor;
    uint64_t out = tensor->source[0]->shape[0], bytes = dtype_bytes(tensor->entry.dtype);
    const uint64_t start[2] = {0, rows->first}, extent[2] = {out, rows->count};
    char *columns = job->columns[worker];
    for (uint32_t p = 0; p < tensor->location.parts; p++) {
        int status = load_box(job, worker, tensor->source[p], start, extent, columns, err);
        if (status)
            return status;
        for (uint64_t o = 0; o < out; o++)
            for (uint64_t r = 0; r < rows->count; r++)
                memcpy(data + r * hf_tensor_row_bytes(tensor) + (p * out + o) * bytes,
                       columns + (o * rows->count + r) * bytes, bytes);
    }
    return 0;
}

static int make_piece(void *context, unsigned worker, uint64_t number, void *data, struct err *err)
{
    struct job *job = context;
    const struct hf_rows *rows = &job->plan.rows[number];
    const struct hf_tensor *tensor = rows->tensor;
    if (tensor->location.transposed)
        return load_transposed_rows(job, worker, rows, data, err);
    if (tensor->entry.rank == 2) /* rank-2 tensors have one part */
        return load_box(job, worker, tensor->source[0], (const uint64_t[2]){rows->first, 0},
                        (const uint64_t[2]){rows->count, tensor->entry.shape[1]}, data, err);
    uint64_t part = tensor->source[0]->shape[0];
    int status = 0;
    for (uint32_t p = 0; p < tensor->location.parts && !status; p++)
        status = load_box(job, worker, tensor->source[p], (const uint64_t[2]){0, 0},
                          (const uint64_t[2]){part, 0},
                          (char *)data + p * part * dtype_bytes(tensor->entry.dtype), err);
    return status;
}

/* Places the pieces of a tensor at `at`; returns their number. */
static uint64_t place_pieces(struct job *job, uint64_t piece, const struct hf_tensor *tensor,
                             uint64_t at)
{
    uint64_t count = 0;
    for (; piece + count < job->plan.pieces_count && job->plan.rows[piece + count].tensor == tensor;
         count++) {
        const struct hf_rows *rows = &job->plan.rows[piece + count];
        job->piece_list[piece + count] =
            (struct piece){at + rows->first * hf_tensor_row_bytes(tensor),
                           (size_t)(rows->count * hf_tensor_row_bytes(tensor))};
    }
    return count;
}

/* Encodes the header. Its metadata contains the format "pt", which transformers requires. Like
 * safetensors' save_model, it adds the second name of a tied tensor. */
static int encode_header(const struct job *job, uint64_t count, struct str *out,
                         uint64_t *ret_file_bytes, struct err *err)
{
    struct hf_location table = {0};
    size_t metadata_count = 1;
    hf_locate(job->model, "embed.tokens.weight", &table);
    const char *const metadata[][2] = {{"format", "pt"}, {"lm_head.weight", table.name}};
    for (uint64_t i = 0; i < count; i++)
        if (job->has_tied_head && strcmp(job->entries[i].name, table.name) == 0)
            metadata_count = 2;
    return safetensors_encode(job->entries, count, metadata, metadata_count,
                              SAFETENSORS_ALIGN_BYTES, out, ret_file_bytes, err);
}

static int put_tensors(struct job *job, const struct checked_file *file, uint64_t first,
                       uint64_t count, struct err *err)
{
    uint64_t begin = job->placed_count;
    for (uint64_t i = 0; i < count; i++)
        job->placed_count += place_pieces(job, job->placed_count, &job->plan.tensors[first + i],
                                          job->entries[i].offset_bytes);
    return pieces_process(job->piece_job.pieces, file->file, file->path, begin,
                          job->placed_count - begin, job->folder.is_comparing, err);
}

/* Writes or compares the file that begins with tensor first. *ret_end: the tensor after its
 * last. */
static int put_file(struct job *job, uint64_t first, uint64_t *ret_end, struct err *err)
{
    char name[HF_FILE_NAME_BYTES];
    struct str header = {0};
    struct checked_file file;
    uint64_t count = 0, file_bytes = 0, index = job->plan.tensors[first].file;
    while (first + count < job->plan.tensors_count &&
           job->plan.tensors[first + count].file == index) {
        job->entries[count] = job->plan.tensors[first + count].entry;
        count++;
    }
    int status = encode_header(job, count, &header, &file_bytes, err);
    if (!status)
        status = checked_file_open(&job->folder, &file, hf_plan_file_name(&job->plan, index, name),
                                   file_bytes, err);
    if (!status) {
        status = checked_file_put(&job->folder, &file, 0, header.data, header.bytes, err);
        if (!status)
            status = put_tensors(job, &file, first, count, err);
        status = checked_file_close(&job->folder, &file, file_bytes, status, err);
    }
    str_deinit(&header);
    *ret_end = first + count;
    return status;
}

static int put_text(struct job *job, const char *name, const struct str *text, struct err *err)
{
    struct checked_file file;
    int status = str_status(text);
    if (status)
        return err_set(err, status, "out of memory for %s", name);
    status = checked_file_open(&job->folder, &file, name, text->bytes, err);
    if (status)
        return status;
    status = checked_file_put(&job->folder, &file, 0, text->data, text->bytes, err);
    return checked_file_close(&job->folder, &file, text->bytes, status, err);
}

static int put_index(struct job *job, struct err *err)
{
    struct str text = {0};
    struct jsonx_writer w = {.out = &text};
    char name[HF_FILE_NAME_BYTES];
    jsonx_begin_object(&w, NULL);
    jsonx_begin_object(&w, "metadata");
    jsonx_write_u64(&w, "total_size", job->plan.bytes);
    jsonx_end_object(&w);
    jsonx_begin_object(&w, "weight_map");
    for (uint64_t i = 0; i < job->plan.tensors_count; i++)
        jsonx_write_string(&w, job->plan.tensors[i].entry.name,
                           hf_plan_file_name(&job->plan, job->plan.tensors[i].file, name));
    jsonx_end_object(&w);
    jsonx_end_object(&w);
    int status = put_text(job, "model.safetensors.index.json", &text, err);
    str_deinit(&text);
    return status;
}

static int put_all_files(struct job *job, const struct str *config, struct err *err)
{
    uint64_t next = 0;
    int status = 0;
    job->placed_count = 0;
    while (!status && next < job->plan.tensors_count)
        status = put_file(job, next, &next, err);
    if (!status && job->plan.files_count > 1)
        status = put_index(job, err);
    return status ? status : put_text(job, CONFIG_NAME, config, err);
}

static int open_pieces(struct job *job, const char *owner_id, struct err *err)
{
    struct pieces_options pieces = {.io = job->io,
                                    .pieces = job->piece_list,
                                    .buffer_bytes = job->plan.buffer_bytes,
                                    .make = make_piece,
                                    .context = job,
                                    .progress_bytes =
                                        job->plan.bytes * (job->options->verify ? 2 : 1)};
    int status = piece_job_open(&job->piece_job, job->options, job->reader, owner_id,
                                job->plan.pieces_count, &pieces, err);
    for (unsigned w = 0; w < pieces.workers_count && !status; w++) {
        job->columns[w] = malloc(job->plan.buffer_bytes);
        if (!job->columns[w])
            status = err_set(err, -ENOMEM, "not enough memory to convert a checkpoint");
    }
    return status;
}

static int convert_to_folder(struct job *job, const char *owner_id, const struct str *config,
                             struct err *err)
{
    const struct convert_checkpoint_options *o = job->options;
    struct io_transaction_options transaction = {.path = o->target,
                                                 .replace = o->force,
                                                 .commit_record = CONFIG_NAME,
                                                 .owner_id = owner_id,
                                                 .resume =
                                                     o->resume ? IO_RESUME_NOW : IO_RESUME_LATER};
    int status = checked_folder_begin(&job->folder, job->io, &transaction, err);
    if (!status)
        status = open_pieces(job, owner_id, err);
    if (!status)
        status = put_all_files(job, config, err);
    if (!status)
        job->kept_bytes = pieces_kept_bytes(job->piece_job.pieces);
    if (!status && o->verify) {
        checked_folder_compare(&job->folder);
        status = put_all_files(job, config, err);
    }
    return status ? status : checked_folder_commit(&job->folder, err);
}

/* Compares an existing target with what this conversion would write. */
static int verify_existing_target(struct job *job, const char *owner_id, const struct str *config,
                                  struct err *err)
{
    int status = checked_folder_open_existing(&job->folder, job->io, job->options->target, err);
    if (!status)
        status = open_pieces(job, owner_id, err);
    if (status)
        return status;
    job->kept_bytes = job->plan.bytes;
    status = put_all_files(job, config, err);
    if (!status || !(job->folder.has_mismatch || pieces_has_mismatch(job->piece_job.pieces)))
        return status;
    return checkpoint_target_reject_existing(job->options->target, err);
}

static bool target_exists(const struct job *job)
{
    struct io_stat info;
    return job->io->names->stat(job->io, job->options->target, &info, NULL) == 0 &&
           info.kind == IO_ENTRY_FOLDER;
}

static int convert_or_verify(struct job *job, const struct str *config, struct err *err)
{
    const struct convert_checkpoint_options *o = job->options;
    char owner_id[IDENTITY_BYTES], options_text[64];
    snprintf(options_text, sizeof options_text, "hf %d %d %" PRIu64, o->cast.is_wanted,
             o->cast.is_wanted ? (int)o->cast.dtype : 0, o->max_file_bytes);
    int status = identity_compute(job->reader, options_text, owner_id, err);
    if (status)
        return status;
    return o->resume && !o->force && target_exists(job)
               ? verify_existing_target(job, owner_id, config, err)
               : convert_to_folder(job, owner_id, config, err);
}

/* keep: leave written data for a resume. */
static void deinit_job(struct job *job, bool keep)
{
    piece_job_close_pieces(&job->piece_job);
    checked_folder_deinit(&job->folder, keep);
    piece_journal_close(job->piece_job.journal, keep); /* after the data is committed or removed */
    ckpt_reader_close(job->reader);
    hf_plan_deinit(&job->plan);
    free(job->entries);
    free(job->piece_list);
    for (unsigned w = 0; w < PIECES_WORKERS_MAX; w++)
        free(job->columns[w]);
}

int convert_checkpoint_hf(struct io *io, const struct convert_checkpoint_options *options,
                          struct convert_checkpoint_result *ret_result, struct err *err)
{
    uint64_t begun_ns = clock_now_ns();
    struct job job = {.io = io, .options = options};
    struct str config = {0};
    struct io *source_io = options->source_io ? options->source_io : io;
    int status = reader_open_path(source_io, options->source, &job.reader, options->log, err);
    if (!status)
        status = checkpoint_target_check_folder(io, source_io, ckpt_reader_path(job.reader),
                                                options->target, options->force, err);
    if (!status)
        status = checkpoint_hf_find_model(job.reader, &job.model, err);
    if (!status)
        status = make_plan(&job, err);
    if (!status)
        status = checkpoint_hf_write_config(job.reader, job.model, &options->cast, &config,
                                            &job.has_tied_head, err);
    if (!status)
        status = convert_or_verify(&job, &config, err);
    if (!status)
        *ret_result =
            (struct convert_checkpoint_result){.tensors_count = job.plan.tensors_count,
                                               .written_bytes = job.plan.bytes,
                                               .cast_count = job.plan.cast_count,
                                               .kept_bytes = job.kept_bytes,
                                               .seconds = clock_seconds(clock_now_ns() - begun_ns)};
    str_deinit(&config);
    bool keep = status == -EINTR && job.folder.transaction && job.piece_job.journal;
    if (status == -EINTR)
        *ret_result = (struct convert_checkpoint_result){.is_resumable = keep};
    deinit_job(&job, keep);
    return status;
}
