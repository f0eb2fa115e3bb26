/*
 * source_litdata — the source for folders of litdata's chunks (litdata.optimize).
 *
 * index.json lists the chunks (packed_file.h). Its config has the formats of a sample's leaves
 * (packed_sample.h), and the tree of these in data_spec: PyTorch's treespec as JSON in a string.
 * A leaf's column is named by its path in the tree: image, meta.width, boxes.0.
 */
#include "base/json/jsonx.h"
#include "convert/record/packed_file.h"
#include "shards/dataset/dataset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_litdata(const struct source_layout *layout)
{
    return !layout->file && !layout->has_tokenizer && layout->has_chunks &&
           source_layout_has_records(layout);
}

struct litdata_index {
    struct packed_index base;
    struct packed_schema *schema;
};

static int reject(const struct litdata_index *index, int status, const char *what,
                  const char *expected)
{
    return packed_index_reject(&index->base, status, what, expected);
}

/* ---- The tree of a sample. ---- */

static int add_leaf(const struct litdata_index *index, const char *path)
{
    struct packed_schema *schema = index->schema;
    if (schema->count == RECORD_VALUES_MAX || strlen(path) >= RECORD_NAME_BYTES_MAX)
        return reject(index, -ENOTSUP, "samples have too many columns",
                      "at most 256, with names of at most 511 bytes");
    strcpy(schema->columns[schema->count++].name, *path ? path : "value");
    return 0;
}

/* The keys of a node; NULL: those of a list or a tuple. The caller frees *ret_root. */
static int read_keys(const struct litdata_index *index, const struct json_t *node, const char *type,
                     struct json_t **ret_keys)
{
    const char *context;
    *ret_keys = NULL;
    if (strcmp(type, "builtins.list") == 0 || strcmp(type, "builtins.tuple") == 0)
        return 0;
    if (strcmp(type, "builtins.dict") != 0 && strcmp(type, "collections.OrderedDict") != 0) {
        reject(index, -ENOTSUP, "samples have a type that is not supported",
               "dictionaries, lists and tuples");
        err_found(index->base.err, "%.100s", type);
        return -ENOTSUP;
    }
    if (jsonx_text(jsonx_get(node, "context"), &context))
        return reject(index, -EBADMSG, "data_spec has a dictionary without keys", "its keys");
    return jsonx_parse(context, strlen(context), index->base.path, ERR_NO_OFFSET, ret_keys,
                       index->base.err);
}

static int add_node(const struct litdata_index *index, const struct json_t *node, const char *path)
{
    const struct json_t *children = jsonx_get(node, "children_spec");
    const char *type, *key;
    struct json_t *keys = NULL;
    int status = 0;
    if (jsonx_kind(node) != JSON_KIND_OBJECT)
        return reject(index, -EBADMSG, "data_spec is invalid", "a tree of objects");
    if (jsonx_text(jsonx_get(node, "type"), &type))
        return add_leaf(index, path);
    status = read_keys(index, node, type, &keys);
    if (!status && keys && jsonx_count(keys) != jsonx_count(children))
        status = reject(index, -EBADMSG, "data_spec is invalid", "a key for each child");
    for (size_t i = 0; i < jsonx_count(children) && !status; i++) {
        char child[RECORD_NAME_BYTES_MAX + 32], number[24];
        snprintf(number, sizeof number, "%zu", i);
        if (!keys)
            key = number;
        else if (jsonx_text(jsonx_at(keys, i), &key))
            status = reject(index, -ENOTSUP, "a dictionary has a key that is not a string",
                            "strings as keys");
        if (!status) {
            int bytes = snprintf(child, sizeof child, "%s%s%s", path, *path ? "." : "", key);
            status = bytes >= (int)sizeof child
                         ? reject(index, -ENOTSUP, "the name of a column is too long", "511 bytes")
                         : add_node(index, jsonx_at(children, i), child);
        }
    }
    jsonx_free(keys);
    return status;
}

static int read_schema(const struct litdata_index *index, const struct json_t *config)
{
    const struct json_t *formats = jsonx_get(config, "data_format");
    const char *spec, *format;
    struct json_t *tree = NULL;
    if (jsonx_text(jsonx_get(config, "data_spec"), &spec))
        return reject(index, -ENOTSUP, "index.json does not describe the samples",
                      "data_spec, as litdata.optimize writes it");
    int status =
        jsonx_parse(spec, strlen(spec), index->base.path, ERR_NO_OFFSET, &tree, index->base.err);
    if (!status)
        status = add_node(index, jsonx_at(tree, 1), "");
    if (!status && (index->schema->count == 0 || jsonx_count(formats) != index->schema->count))
        status = reject(index, -EBADMSG, "data_format and data_spec do not match",
                        "a format for each value of a sample");
    for (uint32_t i = 0; i < index->schema->count && !status; i++) {
        status =
            jsonx_text(jsonx_at(formats, i), &format)
                ? reject(index, -EBADMSG, "data_format is invalid", "strings")
                : packed_column_parse_litdata(format, &index->schema->columns[i], index->base.err);
        if (status)
            err_at(index->base.err, index->base.path, ERR_NO_OFFSET);
    }
    jsonx_free(tree);
    return status;
}

/* ---- Chunks. ---- */

static int check_config(const struct litdata_index *index, const struct json_t *config)
{
    const char *loader = "", *method;
    if (jsonx_kind(config) != JSON_KIND_OBJECT ||
        jsonx_kind(jsonx_get(index->base.root, "chunks")) != JSON_KIND_ARRAY ||
        jsonx_count(jsonx_get(index->base.root, "chunks")) > DATASET_SHARDS_MAX)
        return reject(index, -EBADMSG, "index.json does not describe litdata's chunks",
                      "config, and at most 1048576 chunks");
    const struct json_t *compression = jsonx_get(config, "compression");
    bool is_compressed = jsonx_kind(compression) != JSON_KIND_NULL;
    if ((is_compressed && (jsonx_text(compression, &method) || strncmp(method, "zstd", 4) != 0)) ||
        jsonx_kind(jsonx_get(config, "compression_level")) != JSON_KIND_NULL || /* within chunks */
        jsonx_kind(jsonx_get(config, "ipc_compression")) != JSON_KIND_NULL ||
        jsonx_kind(jsonx_get(config, "encryption")) != JSON_KIND_NULL)
        return reject(index, -ENOTSUP, "the chunks are compressed in another way, or encrypted",
                      "chunks that litdata.optimize wrote uncompressed, or compressed as a whole "
                      "with zstd");
    if (jsonx_text(jsonx_get(config, "item_loader"), &loader) == 0 &&
        strcmp(loader, "PyTreeLoader") != 0) {
        reject(index, -ENOTSUP, "the chunks are for another loader", "PyTreeLoader");
        err_found(index->base.err, "%.100s", loader);
        return -ENOTSUP;
    }
    return 0;
}

static int list_chunks(struct litdata_index *index, const struct convert_options *options,
                       struct record_file *files)
{
    const struct json_t *chunks = jsonx_get(index->base.root, "chunks");
    struct io_queue *queue = NULL;
    int status = index->base.io->ops->queue_open(index->base.io, 1, &queue, index->base.err);
    for (size_t i = 0; i < jsonx_count(chunks) && !status; i++) {
        const struct json_t *chunk = jsonx_at(chunks, i);
        struct packed_file described;
        files[i].schema = index->schema;
        if (options->stop && atomic_load(options->stop))
            status = err_set(index->base.err, -EINTR, "stopped while chunks were listed");
        else if (jsonx_text(jsonx_get(chunk, "filename"), &described.name) ||
                 jsonx_u64(jsonx_get(chunk, "chunk_bytes"), &described.bytes) ||
                 jsonx_u64(jsonx_get(chunk, "chunk_size"), &described.samples))
            status = reject(index, -EBADMSG, "a chunk has an invalid description",
                            "filename, chunk_bytes and chunk_size");
        else
            status = packed_file_list(&index->base, queue, &described, &files[i]);
    }
    if (queue)
        index->base.io->ops->queue_close(queue);
    return status;
}

static int litdata_list(struct io *io, const struct convert_options *options,
                        struct record_file **ret_files, size_t *ret_count, void **ret_state,
                        struct err *err)
{
    struct litdata_index index = {
        .base = {.io = io, .folder = options->source, .what = "a litdata chunk", .err = err}};
    struct record_file *files = NULL;
    size_t count = 0;
    int status = packed_index_read(&index.base);
    const struct json_t *config = jsonx_get(index.base.root, "config");
    if (!status)
        status = check_config(&index, config);
    if (!status) {
        count = jsonx_count(jsonx_get(index.base.root, "chunks"));
        files = calloc(count + 1, sizeof *files);
        index.schema = calloc(1, sizeof *index.schema);
        if (!files || !index.schema)
            status = err_set(err, -ENOMEM, "out of memory for a list of chunks");
    }
    if (!status)
        status = read_schema(&index, config);
    if (!status)
        status = list_chunks(&index, options, files);
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

static int litdata_decode(const struct record_file *file, const uint8_t *data, size_t bytes,
                          struct record *record, struct err *err)
{
    return packed_sample_decode(file->schema, data, bytes, record, err);
}

static const struct record_format litdata_format = {
    .name = "litdata chunks", .list = litdata_list, .free_state = free, .decode = litdata_decode};

static int litdata_open(struct io *io, struct source *source, struct err *err)
{
    return record_source_open(io, source, &litdata_format, err);
}

const struct source_ops source_litdata_ops = {
    .name = "litdata",
    .is_ordered = true,
    .has_columns = true,
    .probe = is_litdata,
    .open = litdata_open,
    .close = record_source_close,
    .describe = record_source_describe,
    .read = record_source_read,
    .reader_open = record_source_reader_open,
    .reader_close = record_source_reader_close,
};
