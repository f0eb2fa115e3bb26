/*
 * inspect_dataset — describes a dataset, a folder of datasets, or a shard.
 */
#include "cli/core/path_kind.h"
#include "cli/inspect/inspect.h"
#include "io/zstd/seekable_io.h"
#include "shards/dataset/dataset.h"

#include <math.h>
#include <stdio.h>

static void write_text_layout(struct jsonx_writer *json, const struct dataset_text *text)
{
    jsonx_begin_object(json, "text");
    jsonx_write_string(json, "tokenizer", text->tokenizer);
    jsonx_write_string(json, "element", text->element);
    jsonx_write_u64(json, "tokens_count", text->tokens);
    jsonx_write_u64(json, "vocabulary_count", text->vocabulary);
    jsonx_write_u64(json, "document_end", text->document_end);
    jsonx_write_u64(json, "member_tokens_count", text->member_tokens);
    jsonx_end_object(json);
}

static void write_shard_list(struct jsonx_writer *json, const struct dataset *dataset)
{
    jsonx_begin_array(json, "shards");
    for (uint64_t i = 0; i < dataset->shards_count; i++) {
        const struct dataset_shard *shard = &dataset->shards[i];
        jsonx_begin_object(json, NULL);
        jsonx_write_string(json, "url", shard->url);
        jsonx_write_u64(json, "samples_count", shard->samples);
        jsonx_write_u64(json, "file_bytes", shard->file_bytes);
        jsonx_write_hex64(json, "xxh3", shard->xxh3);
        jsonx_end_object(json);
    }
    jsonx_end_array(json);
}

int inspect_dataset(struct inspection *in, const char *path)
{
    struct jsonx_writer *json = in->json;
    struct dataset *dataset;
    int status = dataset_open(in->io, path, &dataset, in->err);
    if (status)
        return status;
    jsonx_write_string(json, "path", path);
    jsonx_write_u64(json, "samples_count", dataset->samples);
    jsonx_write_u64(json, "shards_count", dataset->shards_count);
    jsonx_write_u64(json, "total_bytes", dataset_file_bytes(dataset));
    if (dataset_is_compressed(dataset))
        jsonx_write_u64(json, "uncompressed_bytes", dataset_uncompressed_bytes(dataset));
    jsonx_write_u64(json, "mean_sample_bytes", dataset->mean_sample_bytes);
    jsonx_write_hex64(json, "fingerprint", dataset->fingerprint);
    jsonx_begin_array(json, "fields");
    for (uint32_t i = 0; i < dataset->fields_count; i++)
        jsonx_write_string(json, NULL, dataset->fields[i]);
    jsonx_end_array(json);
    jsonx_write_u64(json, "classes_count", dataset->classes_count);
    jsonx_begin_array(json, "class_names");
    for (uint64_t i = 0; i < dataset->classes_count; i++)
        jsonx_write_string(json, NULL, dataset->classes[i]);
    jsonx_end_array(json);
    if (dataset->text.element[0])
        write_text_layout(json, &dataset->text);
    if (dataset->options_json.bytes > 0)
        jsonx_write_raw(json, "converted_with", dataset->options_json.data,
                        dataset->options_json.bytes);
    if (in->lists_shards)
        write_shard_list(json, dataset);
    dataset_close(dataset);
    return 0;
}

static int inspect_dataset_in_folder(void *context, const char *path)
{
    struct inspection *in = context;
    jsonx_begin_object(in->json, path);
    int status = inspect_dataset(in, path);
    jsonx_end_object(in->json);
    return status;
}

int inspect_datasets(struct inspection *in, const char *path)
{
    return path_each_dataset(in->io, path, inspect_dataset_in_folder, in, in->err);
}

static void write_fields(struct jsonx_writer *json, const struct shard_index *index)
{
    jsonx_begin_array(json, "fields");
    for (uint32_t f = 0; f < shard_index_fields(index); f++) {
        uint64_t count = 0, bytes = 0;
        for (uint64_t s = 0; s < shard_index_samples(index); s++) {
            struct shard_field field;
            shard_index_field(index, s, f, &field);
            count += field.present;
            bytes += field.size_bytes;
        }
        jsonx_begin_object(json, NULL);
        jsonx_write_string(json, "extension", shard_index_extension(index, f));
        jsonx_write_u64(json, "members_count", count);
        jsonx_write_u64(json, "total_bytes", bytes);
        jsonx_write_u64(json, "mean_bytes", count ? bytes / count : 0);
        jsonx_end_object(json);
    }
    jsonx_end_array(json);
}

static void write_index_fields(struct jsonx_writer *json, const struct shard_index *index)
{
    jsonx_begin_array(json, "index_fields");
    for (uint32_t i = 0; i < shard_index_numbers(index); i++) {
        double least = INFINITY, greatest = -INFINITY;
        uint64_t count = 0;
        for (uint64_t s = 0; s < shard_index_samples(index); s++) {
            double value = shard_index_number(index, s, i);
            count += !isnan(value);
            least = fmin(least, value); /* ignores NaN */
            greatest = fmax(greatest, value);
        }
        jsonx_begin_object(json, NULL);
        jsonx_write_string(json, "name", shard_index_number_name(index, i));
        jsonx_write_u64(json, "samples_count", count);
        jsonx_write_f64(json, "least", least);
        jsonx_write_f64(json, "greatest", greatest);
        jsonx_end_object(json);
    }
    jsonx_end_array(json);
}

static void write_key(struct jsonx_writer *json, const char *name, const struct shard_index *index,
                      uint64_t sample)
{
    char key[SHARD_KEY_BYTES_MAX + 1];
    uint32_t bytes;
    const char *text = shard_index_key(index, sample, &bytes);
    snprintf(key, sizeof key, "%.*s", (int)bytes, text);
    jsonx_write_string(json, name, key);
}

int inspect_shard(struct inspection *in, const char *path)
{
    struct jsonx_writer *json = in->json;
    struct io *io;
    struct shard *shard;
    struct io_stat info;
    int status = in->io->names->stat(in->io, path, &info, in->err);
    if (!status)
        status = seekable_io_open(in->io, 1, &io, in->err);
    if (status)
        return status;
    status = shard_open(io, path, &shard, in->err);
    if (status)
        goto out;
    jsonx_write_string(json, "path", path);
    jsonx_write_bool(json, "has_own_index", !shard->is_plain_tar);
    jsonx_write_u64(json, "version", shard->trailer.version);
    jsonx_write_u64(json, "samples_count", shard->trailer.samples);
    jsonx_write_u64(json, "file_bytes", info.size_bytes);
    if (info.size_bytes != shard->trailer.file_bytes)
        jsonx_write_u64(json, "uncompressed_bytes", shard->trailer.file_bytes);
    jsonx_write_u64(json, "archive_end", shard->trailer.archive_end);
    if (!shard->is_plain_tar)
        jsonx_write_u64(json, "index_offset", shard->trailer.index_offset);
    else
        jsonx_write_bool(json, "has_checksums", !(shard->trailer.flags & SHARD_FLAG_NO_CRCS));
    jsonx_write_u64(json, "index_bytes", shard->trailer.index_bytes);
    if (shard->trailer.samples > 0) {
        write_key(json, "first_key", shard->index, 0);
        write_key(json, "last_key", shard->index, shard->trailer.samples - 1);
    }
    write_fields(json, shard->index);
    if (shard_index_numbers(shard->index) > 0)
        write_index_fields(json, shard->index);
    shard_close(shard);
out:
    io_close(io);
    return status;
}
