/*
 * cmd_inspect — `millrace inspect PATH`: what is it, what is in it. Reads headers only.
 */
#include "base/clock.h"
#include "base/json_format.h"
#include "ckpt/ckpt.h"
#include "ckpt/manifest.h"
#include "ckpt/safetensors.h"
#include "cli/output.h"
#include "cli/page_dataset.h"
#include "cli/page_run.h"
#include "cli/path_kind.h"
#include "cli/run_metrics.h"
#include "cli/verbs.h"
#include "io/whole.h"
#include "shards/dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct inspect_args {
    struct common_args common;
    const char *html;
    bool force;
};

#define AT(member) offsetof(struct inspect_args, member)
static const struct option rows[] = {
    {"html", 0, OPTION_TEXT, AT(html), "OUT",
     .help = "write a page of a dataset, shard or run: one file, no network"},
    {"force", 0, OPTION_FLAG, AT(force), .help = "an existing OUT gives way"},
};

/* What the functions below share. */
struct inspection {
    struct io *io;
    struct json_writer *json;
    bool lists_shards; /* of a dataset */
    const struct log *log;
    struct err *err;
};

static void write_text_layout(struct json_writer *json, const struct dataset_text *text)
{
    json_begin_object(json, "text");
    json_write_string(json, "tokenizer", text->tokenizer);
    json_write_string(json, "element", text->element);
    json_write_u64(json, "tokens_count", text->tokens);
    json_write_u64(json, "vocabulary_count", text->vocabulary);
    json_write_u64(json, "document_end", text->document_end);
    json_write_u64(json, "member_tokens_count", text->member_tokens);
    json_end_object(json);
}

static void write_shard_list(struct json_writer *json, const struct dataset *dataset)
{
    json_begin_array(json, "shards");
    for (uint64_t i = 0; i < dataset->shards_count; i++) {
        const struct dataset_shard *shard = &dataset->shards[i];
        json_begin_object(json, NULL);
        json_write_string(json, "url", shard->url);
        json_write_u64(json, "samples_count", shard->samples);
        json_write_u64(json, "file_bytes", shard->file_bytes);
        json_write_hex64(json, "xxh3", shard->xxh3);
        json_end_object(json);
    }
    json_end_array(json);
}

static int inspect_dataset(struct inspection *in, const char *path)
{
    struct json_writer *json = in->json;
    struct dataset *dataset;
    int status = dataset_open(in->io, path, &dataset, in->err);
    if (status)
        return status;
    uint64_t file_bytes = 0;
    for (uint64_t i = 0; i < dataset->shards_count; i++)
        file_bytes += dataset->shards[i].file_bytes;
    json_write_string(json, "path", dataset->path);
    json_write_u64(json, "samples_count", dataset->samples);
    json_write_u64(json, "shards_count", dataset->shards_count);
    json_write_u64(json, "total_bytes", file_bytes);
    json_write_u64(json, "mean_sample_bytes", dataset->mean_sample_bytes);
    json_write_hex64(json, "fingerprint", dataset->fingerprint);
    json_begin_array(json, "fields");
    for (uint32_t i = 0; i < dataset->fields_count; i++)
        json_write_string(json, NULL, dataset->fields[i]);
    json_end_array(json);
    json_write_u64(json, "classes_count", dataset->classes_count);
    json_begin_array(json, "class_names");
    for (uint64_t i = 0; i < dataset->classes_count; i++)
        json_write_string(json, NULL, dataset->classes[i]);
    json_end_array(json);
    if (dataset->text.element[0])
        write_text_layout(json, &dataset->text);
    if (dataset->options_json.bytes > 0)
        json_write_raw(json, "converted_with", dataset->options_json.data, dataset->options_json.bytes);
    if (in->lists_shards)
        write_shard_list(json, dataset);
    dataset_close(dataset);
    return 0;
}

static int inspect_one_of_many(void *context, const char *path)
{
    struct inspection *in = context;
    json_begin_object(in->json, path);
    int status = inspect_dataset(in, path);
    json_end_object(in->json);
    return status;
}

static void write_fields(struct json_writer *json, const struct shard_index *index)
{
    json_begin_array(json, "fields");
    for (uint32_t f = 0; f < shard_index_fields(index); f++) {
        uint64_t count = 0, bytes = 0;
        for (uint64_t s = 0; s < shard_index_samples(index); s++) {
            struct shard_field field;
            shard_index_field(index, s, f, &field);
            count += field.present;
            bytes += field.size_bytes;
        }
        json_begin_object(json, NULL);
        json_write_string(json, "extension", shard_index_extension(index, f));
        json_write_u64(json, "members_count", count);
        json_write_u64(json, "total_bytes", bytes);
        json_write_u64(json, "mean_bytes", count ? bytes / count : 0);
        json_end_object(json);
    }
    json_end_array(json);
}

static void write_key(struct json_writer *json, const char *name, const struct shard_index *index,
                      uint64_t sample)
{
    char key[SHARD_KEY_BYTES_MAX + 1];
    uint32_t bytes;
    const char *text = shard_index_key(index, sample, &bytes);
    snprintf(key, sizeof key, "%.*s", (int)bytes, text);
    json_write_string(json, name, key);
}

static int inspect_shard(struct inspection *in, const char *path)
{
    struct json_writer *json = in->json;
    struct shard *shard;
    int status = shard_open(in->io, path, &shard, in->err);
    if (status)
        return status;
    json_write_string(json, "path", path);
    json_write_string(json, "index", !shard->is_foreign ? "in the shard" : "apart: a tar of another tool");
    json_write_u64(json, "version", shard->trailer.version);
    json_write_u64(json, "samples_count", shard->trailer.samples);
    json_write_u64(json, "file_bytes", shard->trailer.file_bytes);
    json_write_u64(json, "archive_end", shard->trailer.archive_end);
    if (!shard->is_foreign)
        json_write_u64(json, "index_offset", shard->trailer.index_offset);
    else
        json_write_bool(json, "has_checksums", !(shard->trailer.flags & SHARD_FLAG_NO_CRCS));
    json_write_u64(json, "index_bytes", shard->trailer.index_bytes);
    if (shard->trailer.samples > 0) {
        write_key(json, "first_key", shard->index, 0);
        write_key(json, "last_key", shard->index, shard->trailer.samples - 1);
    }
    write_fields(json, shard->index);
    shard_close(shard);
    return 0;
}

static void write_tensor(struct json_writer *json, const char *name, enum dtype dtype, uint32_t rank,
                         const uint64_t *shape, uint64_t bytes)
{
    json_begin_object(json, NULL);
    json_write_string(json, "name", name);
    json_write_string(json, "dtype", dtype_name(dtype));
    json_begin_array(json, "shape");
    for (uint32_t i = 0; i < rank; i++)
        json_write_u64(json, NULL, shape[i]);
    json_end_array(json);
    json_write_u64(json, "size_bytes", bytes);
    json_end_object(json);
}

static uint64_t elements_of(uint32_t rank, const uint64_t *shape)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < rank; i++)
        elements *= shape[i];
    return elements;
}

static void write_manifest(struct json_writer *json, const struct manifest *manifest)
{
    uint64_t parameters = 0, bytes = 0;
    for (uint64_t i = 0; i < manifest->tensors_count; i++) {
        const struct manifest_tensor *tensor = &manifest->tensors[i];
        if (strncmp(tensor->name, CKPT_OPTIMIZER_PREFIX, strlen(CKPT_OPTIMIZER_PREFIX)) != 0)
            parameters += elements_of(tensor->rank, tensor->shape);
    }
    for (uint64_t i = 0; i < manifest->files_count; i++)
        bytes += manifest->files[i].size_bytes;
    char time[CLOCK_ISO_BYTES];
    json_write_u64(json, "step", manifest->step);
    json_write_string(json, "written", clock_format_iso(manifest->wall_ns, time));
    json_write_u64(json, "ranks_count", manifest->ranks);
    json_write_string(json, "numerics_id", manifest->numerics_id);
    json_write_u64(json, "files_count", manifest->files_count);
    json_write_u64(json, "files_bytes", bytes);
    json_write_u64(json, "parameters_count", parameters);
    static const char *const parts[] = {"loader", "metrics"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (json_get(manifest->state, parts[i]))
            json_copy(json, parts[i], json_get(manifest->state, parts[i]));
    json_write_u64(json, "tensors_count", manifest->tensors_count);
    json_begin_array(json, "tensors");
    for (uint64_t i = 0; i < manifest->tensors_count; i++) {
        const struct manifest_tensor *tensor = &manifest->tensors[i];
        write_tensor(json, tensor->name, tensor->dtype, tensor->rank, tensor->shape,
                     elements_of(tensor->rank, tensor->shape) * dtype_bytes(tensor->dtype));
    }
    json_end_array(json);
}

static int inspect_checkpoint(struct inspection *in, const char *path)
{
    char step_path[IO_PATH_BYTES_MAX];
    uint64_t step;
    struct ckpt_reader *reader = NULL;
    int status = ckpt_find(in->io, path, step_path, &step, in->log, in->err);
    if (!status)
        status = ckpt_reader_open(in->io, step_path, &reader, in->err);
    if (!status) {
        json_write_string(in->json, "path", step_path);
        write_manifest(in->json, ckpt_reader_manifest(reader));
    }
    ckpt_reader_close(reader);
    return status;
}

static int inspect_safetensors(struct inspection *in, const char *path)
{
    struct json_writer *json = in->json;
    struct safetensors file;
    int status = safetensors_read(in->io, path, &file, in->err);
    if (status)
        return status;
    json_write_string(json, "path", path);
    json_write_u64(json, "file_bytes", file.file_bytes);
    json_write_u64(json, "data_offset", file.data_offset);
    if (json_get(file.root, "__metadata__"))
        json_copy(json, "metadata", json_get(file.root, "__metadata__"));
    json_write_u64(json, "tensors_count", file.count);
    json_begin_array(json, "tensors");
    for (uint64_t i = 0; i < file.count; i++) {
        const struct safetensors_entry *entry = &file.entries[i];
        write_tensor(json, entry->name, entry->dtype, entry->rank, entry->shape, entry->size_bytes);
    }
    json_end_array(json);
    safetensors_deinit(&file);
    return 0;
}

static int inspect_run(struct inspection *in, const char *path)
{
    struct json_writer *json = in->json;
    struct run_metrics *metrics;
    int status = run_metrics_read(in->io, path, &metrics, in->err);
    if (status)
        return status;
    json_write_string(json, "path", path);
    json_write_u64(json, "step", metrics->last_step);
    json_write_u64(json, "epoch", metrics->last_epoch);
    json_write_u64(json, "reports_count", metrics->lines_count);
    json_begin_object(json, "last");
    for (int kind = 0; kind < RUN_SERIES_COUNT; kind++)
        if (metrics->series[kind].count > 0)
            json_write_f64(json, run_series_key((enum run_series_kind)kind), metrics->series[kind].last);
    json_end_object(json);
    free(metrics);
    return 0;
}

/* Builds the page of what stands at path and writes it to args->html; tells so in the result. */
static int write_page(struct inspection *in, enum path_kind kind, const char *path,
                      const struct inspect_args *args, const struct log *log)
{
    struct str page = {0};
    struct io *io = NULL;
    int status;
    if (kind == PATH_RUN) {
        status = page_run_build(in->io, path, log, &page, in->err);
    } else if (kind == PATH_DATASET || kind == PATH_SHARD) {
        status = page_dataset_build(in->io, path, kind == PATH_SHARD, &page, in->err);
    } else {
        status = err_set(in->err, -ENOTSUP, "there is no page of %s", path_kind_name(kind));
        err_at(in->err, path, ERR_NO_OFFSET);
        err_advise(in->err, "give one dataset, a shard or the folder of a run");
    }
    if (!status)
        status = io_open(args->html, NULL, &io, in->err);
    if (!status)
        status = io_write_file(io, args->html, page.data, page.bytes, args->force, in->err);
    if (status == -EEXIST)
        err_advise(in->err, "another name, or --force to replace it");
    if (!status) {
        json_write_string(in->json, "path", path);
        json_write_string(in->json, "page", args->html);
        json_write_u64(in->json, "written_bytes", page.bytes);
    }
    io_close(io);
    str_deinit(&page);
    return status;
}

static int inspect_kind(struct inspection *in, enum path_kind kind, const char *path)
{
    switch (kind) {
    case PATH_DATASET:
        return inspect_dataset(in, path);
    case PATH_DATASETS:
        return path_each_dataset(in->io, path, inspect_one_of_many, in, in->err);
    case PATH_SHARD:
        return inspect_shard(in, path);
    case PATH_CHECKPOINT:
    case PATH_CHECKPOINTS:
        return inspect_checkpoint(in, path);
    case PATH_SAFETENSORS:
        return inspect_safetensors(in, path);
    case PATH_RUN:
        return inspect_run(in, path);
    case PATH_KIND_COUNT:
        break;
    }
    return -ENOTSUP;
}

static int run(const struct invocation *invocation, struct err *err)
{
    const struct common_args *common = invocation->common;
    const struct inspect_args *args = invocation->args;
    char path[IO_PATH_BYTES_MAX];
    enum path_kind kind;
    struct output output;
    struct inspection in = {.json = &output.json,
                            .lists_shards = common->json || common->verbose,
                            .log = invocation->log,
                            .err = err};
    int status = io_open(invocation->positional[0], NULL, &in.io, err);
    if (!status)
        status = path_kind_of(in.io, invocation->positional[0], &kind, path, err);
    if (!status) {
        output_begin(&output);
        json_write_string(&output.json, "kind", path_kind_name(kind));
        status =
            args->html ? write_page(&in, kind, path, args, invocation->log) : inspect_kind(&in, kind, path);
        if (status)
            output_abort(&output);
        else
            status = output_end(&output, common->json, stdout, err);
    }
    io_close(in.io);
    return status;
}

static const char *const examples[] = {
    "millrace inspect shards",
    "millrace inspect shards/shard-000000.tar",
    "millrace inspect runs/a/ckpt --json",
    "millrace inspect model.safetensors",
    "millrace inspect shards --html shards.html",
    "millrace inspect runs/a --html run.html",
    NULL,
};

const struct verb verb_inspect = {
    .name = "inspect",
    .arguments = "PATH",
    .arguments_least = 1,
    .arguments_most = 1,
    .summary = "Say what a dataset, shard, checkpoint, run or safetensors file is and what is in it.",
    .details =
        "Reads headers only. Of a folder of checkpoints the newest whole one is shown. With --verbose or "
        "--json a "
        "dataset's shards are listed.\n"
        "With --html, a page for a browser: of a dataset or shard a contact sheet, sizes, classes, fields "
        "and "
        "shards (it reads the samples that it shows), of a run its curves over the steps, checkpoints and "
        "configuration. A run is its folder or its metrics.jsonl.",
    .options = {rows, sizeof rows / sizeof rows[0]},
    .examples = examples,
    .args_bytes = sizeof(struct inspect_args),
    .run = run,
};
