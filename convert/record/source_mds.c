/*
 * source_mds — the source for folders of MosaicML's MDS shards (the package mosaicml-streaming).
 *
 * index.json lists the shards (packed_file.h) and describes their columns. Between the offsets and
 * the samples (packed_sample.h), a shard has a copy of its description.
 *
 * Listing reads the offsets of each shard. Hashes in index.json are of whole shards, and are not
 * verified.
 */
#include "base/json/jsonx.h"
#include "convert/record/packed_file.h"
#include "shards/dataset/dataset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_mds(const struct source_layout *layout)
{
    return !layout->file && !layout->has_tokenizer && layout->has_mds &&
           source_layout_has_records(layout);
}

struct mds_index {
    struct packed_index base;
    struct packed_schema *schema;
};

static int reject(const struct mds_index *index, int status, const char *what, const char *expected)
{
    return packed_index_reject(&index->base, status, what, expected);
}

static int read_index(struct mds_index *index)
{
    uint64_t version = 0;
    int status = packed_index_read(&index->base);
    if (status)
        return status;
    if (jsonx_u64(jsonx_get(index->base.root, "version"), &version) || version != 2)
        return reject(index, -ENOTSUP, "the version of MDS is not supported", "version 2");
    const struct json_t *shards = jsonx_get(index->base.root, "shards");
    if (jsonx_kind(shards) != JSON_KIND_ARRAY || jsonx_count(shards) > DATASET_SHARDS_MAX)
        return reject(index, -EBADMSG, "index.json has no list of shards",
                      "at most 1048576 shards");
    return 0;
}

static int add_column(const struct mds_index *index, struct packed_schema *schema,
                      const struct json_t *name_node, const struct json_t *encoding_node,
                      const struct json_t *size_node)
{
    struct packed_column *column = &schema->columns[schema->count];
    const char *name, *encoding;
    uint64_t size = 0;
    if (jsonx_text(name_node, &name) || strlen(name) >= sizeof column->name ||
        jsonx_text(encoding_node, &encoding) ||
        (jsonx_kind(size_node) != JSON_KIND_NULL && jsonx_u64(size_node, &size)))
        return reject(index, -EBADMSG, "a shard has an invalid column",
                      "a name of at most 511 bytes, an encoding, and a size or null");
    strcpy(column->name, name);
    int status = packed_column_parse_mds(encoding, column, index->base.err);
    if (status) {
        err_at(index->base.err, index->base.path, ERR_NO_OFFSET);
        return status;
    }
    schema->count++;
    return size == column->bytes
               ? 0
               : reject(index, -EBADMSG, "the size of a column does not match its encoding",
                        "the size that the encoding has");
}

/* All shards must have the columns of the first one. */
static int read_columns(struct mds_index *index, const struct json_t *shard,
                        struct packed_schema *schema)
{
    const struct json_t *names = jsonx_get(shard, "column_names"),
                        *encodings = jsonx_get(shard, "column_encodings"),
                        *sizes = jsonx_get(shard, "column_sizes");
    size_t count = jsonx_count(names);
    int status = 0;
    memset(schema, 0, sizeof *schema);
    if (count == 0 || count > RECORD_VALUES_MAX || jsonx_count(encodings) != count ||
        jsonx_count(sizes) != count)
        return reject(index, -EBADMSG, "a shard does not describe its columns",
                      "column_names, column_encodings and column_sizes of 1 to 256 columns");
    for (size_t i = 0; i < count && !status; i++)
        status = add_column(index, schema, jsonx_at(names, i), jsonx_at(encodings, i),
                            jsonx_at(sizes, i));
    return status;
}

static int check_columns(struct mds_index *index, const struct json_t *shard, bool is_first,
                         struct packed_schema *scratch)
{
    if (is_first)
        return read_columns(index, shard, index->schema);
    int status = read_columns(index, shard, scratch);
    return status || memcmp(scratch, index->schema, sizeof *scratch) == 0
               ? status
               : reject(index, -ENOTSUP, "the shards have different columns",
                        "the columns of the first shard");
}

static int list_shard(struct mds_index *index, struct io_queue *queue, const struct json_t *shard,
                      struct record_file *file)
{
    const struct json_t *raw = jsonx_get(shard, "raw_data");
    const char *format = "", *compression;
    struct packed_file described;
    if (jsonx_text(jsonx_get(shard, "format"), &format) || strcmp(format, "mds") != 0) {
        reject(index, -ENOTSUP, "a shard has another format", "mds");
        err_found(index->base.err, "%.100s", format);
        return -ENOTSUP;
    }
    if (jsonx_text(jsonx_get(raw, "basename"), &described.name) ||
        jsonx_u64(jsonx_get(raw, "bytes"), &described.bytes) ||
        jsonx_u64(jsonx_get(shard, "samples"), &described.samples))
        return reject(index, -EBADMSG, "a shard has an invalid description",
                      "raw_data with a basename and bytes, and samples");
    file->schema = index->schema;
    int status = packed_file_list(&index->base, queue, &described, file);
    if (status == -ENOENT && jsonx_text(jsonx_get(shard, "compression"), &compression) == 0) {
        err_expected(index->base.err, "shards, or shards compressed with zstd, gz or bz2");
        err_found(index->base.err, "the compression %.100s in index.json", compression);
        err_advise(index->base.err, "fetch the shards, or decompress them in their folder");
    }
    return status;
}

static int list_shards(struct mds_index *index, const struct convert_options *options,
                       struct record_file *files)
{
    const struct json_t *shards = jsonx_get(index->base.root, "shards");
    struct packed_schema *scratch = calloc(1, sizeof *scratch);
    struct io_queue *queue = NULL;
    int status = scratch && index->schema
                     ? index->base.io->ops->queue_open(index->base.io, 1, &queue, index->base.err)
                     : err_set(index->base.err, -ENOMEM, "out of memory for a list of shards");
    for (size_t i = 0; i < jsonx_count(shards) && !status; i++) {
        if (options->stop && atomic_load(options->stop))
            status = err_set(index->base.err, -EINTR, "stopped while shards were listed");
        if (!status)
            status = check_columns(index, jsonx_at(shards, i), i == 0, scratch);
        if (!status)
            status = list_shard(index, queue, jsonx_at(shards, i), &files[i]);
    }
    if (queue)
        index->base.io->ops->queue_close(queue);
    free(scratch);
    return status;
}

static int mds_list(struct io *io, const struct convert_options *options,
                    struct record_file **ret_files, size_t *ret_count, void **ret_state,
                    struct err *err)
{
    struct mds_index index = {
        .base = {.io = io, .folder = options->source, .what = "an MDS shard", .err = err}};
    struct record_file *files = NULL;
    int status = read_index(&index);
    size_t count = status ? 0 : jsonx_count(jsonx_get(index.base.root, "shards"));
    if (!status) {
        files = calloc(count + 1, sizeof *files);
        index.schema = calloc(1, sizeof *index.schema);
        status = files ? list_shards(&index, options, files)
                       : err_set(err, -ENOMEM, "out of memory for a list of shards");
    }
    jsonx_free(index.base.root);
    if (status) {
        record_files_free(files, count);
        free(index.schema);
        return status;
    }
    *ret_files = files;
    *ret_count = count;
    *ret_state = index.schema;
    return 0;
}

static int mds_decode(const struct record_file *file, const uint8_t *data, size_t bytes,
                      struct record *record, struct err *err)
{
    return packed_sample_decode(file->schema, data, bytes, record, err);
}

static const struct record_format mds_format = {
    .name = "MDS shards", .list = mds_list, .free_state = free, .decode = mds_decode};

static int mds_open(struct io *io, struct source *source, struct err *err)
{
    return record_source_open(io, source, &mds_format, err);
}

const struct source_ops source_mds_ops = {
    .name = "mds",
    .is_ordered = true,
    .has_columns = true,
    .probe = is_mds,
    .open = mds_open,
    .close = record_source_close,
    .describe = record_source_describe,
    .read = record_source_read,
    .reader_open = record_source_reader_open,
    .reader_close = record_source_reader_close,
};
