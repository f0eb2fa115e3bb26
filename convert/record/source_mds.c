/*
 * source_mds — the source for folders of MosaicML's MDS shards (the package mosaicml-streaming).
 *
 * index.json lists the shards and describes their columns. A shard is:
 *
 *     0            u32 n, the number of samples
 *     4            u32 offset[n + 1]; sample i is [offset[i], offset[i + 1])
 *     8 + 4n       a copy of the description, in JSON
 *     offset[0]    the samples (mds_sample.h)
 *
 * Listing reads the offsets of each shard. Hashes in index.json are of whole shards, and are not
 * verified.
 */
#include "base/bytes.h"
#include "base/json/jsonx.h"
#include "convert/record/mds_sample.h"
#include "convert/record/record_source.h"
#include "io/file_util.h"
#include "shards/dataset/dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char index_name[] = "index.json";

static bool is_mds(const struct source_layout *layout)
{
    return !layout->file && !layout->has_tokenizer && layout->has_mds &&
           source_layout_has_records(layout);
}

/* ---- index.json. ---- */

struct mds_index {
    struct io *io;
    const char *folder;
    char path[IO_PATH_BYTES_MAX];
    struct json_t *root;
    struct mds_schema *schema;
    struct err *err;
};

static int reject(const struct mds_index *index, int status, const char *what, const char *expected)
{
    err_set(index->err, status, "%s", what);
    err_at(index->err, index->path, ERR_NO_OFFSET);
    err_expected(index->err, "%s", expected);
    return status;
}

static int read_index(struct mds_index *index)
{
    char *text = NULL;
    size_t bytes;
    uint64_t version = 0;
    int status = io_join_path(index->folder, index_name, index->path, index->err);
    if (!status)
        status = io_read_file(index->io, index->path, JSON_BYTES_MAX, &text, &bytes, index->err);
    if (status == -ENOENT)
        err_advise(index->err, "MDS shards are described by index.json: fetch it too");
    if (!status)
        status = jsonx_parse(text, bytes, index->path, 0, &index->root, index->err);
    free(text);
    if (status)
        return status;
    if (jsonx_u64(jsonx_get(index->root, "version"), &version) || version != 2)
        return reject(index, -ENOTSUP, "the version of MDS is not supported", "version 2");
    const struct json_t *shards = jsonx_get(index->root, "shards");
    if (jsonx_kind(shards) != JSON_KIND_ARRAY || jsonx_count(shards) > DATASET_SHARDS_MAX)
        return reject(index, -EBADMSG, "index.json has no list of shards",
                      "at most 1048576 shards");
    return 0;
}

static int add_column(const struct mds_index *index, struct mds_schema *schema,
                      const struct json_t *name_node, const struct json_t *encoding_node,
                      const struct json_t *size_node)
{
    struct mds_column *column = &schema->columns[schema->count];
    const char *name, *encoding;
    uint64_t size = 0;
    if (jsonx_text(name_node, &name) || strlen(name) >= sizeof column->name ||
        jsonx_text(encoding_node, &encoding) ||
        (jsonx_kind(size_node) != JSON_KIND_NULL && jsonx_u64(size_node, &size)))
        return reject(index, -EBADMSG, "a shard has an invalid column",
                      "a name of at most 511 bytes, an encoding, and a size or null");
    strcpy(column->name, name);
    int status = mds_column_parse(encoding, column, index->err);
    if (status) {
        err_at(index->err, index->path, ERR_NO_OFFSET);
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
                        struct mds_schema *schema)
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
                         struct mds_schema *scratch)
{
    if (is_first)
        return read_columns(index, shard, index->schema);
    int status = read_columns(index, shard, scratch);
    return status || memcmp(scratch, index->schema, sizeof *scratch) == 0
               ? status
               : reject(index, -ENOTSUP, "the shards have different columns",
                        "the columns of the first shard");
}

/* ---- Shards. ---- */

static int reject_compressed(const struct record_file *file, struct err *err)
{
    err_set(err, -ENOTSUP, "compressed MDS shards are not supported");
    err_at(err, file->path, ERR_NO_OFFSET);
    err_found(err, "only the compressed shard");
    err_advise(err, "decompress the shards first, for example in their folder with "
                    "`for f in *.zstd; do zstd -d \"$f\" -o \"${f%%.zstd}\"; done`");
    return -ENOTSUP;
}

static int reject_shard(const struct record_file *file, uint64_t offset, const char *expected,
                        uint64_t found, struct err *err)
{
    err_set(err, -EBADMSG, "an MDS shard is damaged, or does not match index.json");
    err_at(err, file->path, (int64_t)offset);
    err_expected(err, "%s", expected);
    err_found(err, "%" PRIu64, found);
    err_advise(err, "fetch the shard and index.json again");
    return -EBADMSG;
}

/* Sets the offsets of a shard with so many samples and bytes. */
static int read_offsets(struct io *io, struct io_queue *queue, const struct io_file *handle,
                        struct record_file *file, uint64_t samples, struct err *err)
{
    uint64_t head_bytes = 4 * (samples + 2), bytes = file->file.bytes;
    if (samples > UINT32_MAX || head_bytes > bytes)
        return reject_shard(file, 0, "4 bytes of offset for each sample", bytes, err);
    uint8_t *head = malloc(head_bytes);
    file->offsets = calloc(samples + 1, sizeof *file->offsets);
    int status = head && file->offsets ? 0 : err_set(err, -ENOMEM, "out of memory for a shard");
    if (!status)
        status = io_read_exact(queue, io, (struct io_file *)(uintptr_t)handle, file->path, 0, head,
                               head_bytes, err);
    if (!status && bytes_get_u32(head) != samples)
        status =
            reject_shard(file, 0, "as many samples as in index.json", bytes_get_u32(head), err);
    for (uint64_t i = 0; i <= samples && !status; i++) {
        uint64_t offset = file->offsets[i] = bytes_get_u32(head + 4 * (i + 1)),
                 before = i > 0 ? file->offsets[i - 1] : head_bytes;
        if (offset < before || offset > bytes || (i == samples && offset != bytes))
            status = reject_shard(file, 4 * (i + 1),
                                  "an offset after the one before, within the "
                                  "shard",
                                  offset, err);
    }
    file->records_count = samples;
    free(head);
    return status;
}

static int open_shard(struct mds_index *index, struct io_queue *queue, struct record_file *file,
                      uint64_t samples, uint64_t bytes, bool is_compressed)
{
    struct io *io = index->io;
    struct io_file *handle = NULL;
    struct io_stat info;
    int status = io->names->stat(io, file->path, &info, index->err);
    if (status == -ENOENT && is_compressed)
        return reject_compressed(file, index->err);
    if (status)
        return status;
    listed_file_set(&file->file, &info);
    if (info.size_bytes != bytes)
        return reject_shard(file, 0, "as many bytes as in index.json", info.size_bytes, index->err);
    status = io->ops->file_open(io, file->path, &handle, index->err);
    if (!status)
        status = listed_file_check(&file->file, io, handle, file->path, index->err);
    if (!status)
        status = read_offsets(io, queue, handle, file, samples, index->err);
    if (handle)
        io->ops->file_close(handle);
    return status;
}

/* Names within the folder. */
static bool is_inside(const char *name)
{
    for (const char *at = name; *at; at += strcspn(at, "/"), at += *at == '/')
        if (strncmp(at, "..", 2) == 0 && (!at[2] || at[2] == '/'))
            return false;
    return *name && *name != '/';
}

static int list_shard(struct mds_index *index, struct io_queue *queue, const struct json_t *shard,
                      struct record_file *file)
{
    const struct json_t *raw = jsonx_get(shard, "raw_data"), *zip = jsonx_get(shard, "zip_data");
    const char *format = "", *name;
    uint64_t samples, bytes;
    char path[IO_PATH_BYTES_MAX];
    if (jsonx_text(jsonx_get(shard, "format"), &format) || strcmp(format, "mds") != 0) {
        reject(index, -ENOTSUP, "a shard has another format", "mds");
        err_found(index->err, "%.100s", format);
        return -ENOTSUP;
    }
    if (jsonx_text(jsonx_get(raw, "basename"), &name) || !is_inside(name) ||
        jsonx_u64(jsonx_get(raw, "bytes"), &bytes) ||
        jsonx_u64(jsonx_get(shard, "samples"), &samples))
        return reject(index, -EBADMSG, "a shard has an invalid description",
                      "raw_data with a basename within the folder and bytes, and samples");
    int status = io_join_path(index->folder, name, path, index->err);
    file->path = status ? NULL : strdup(path);
    file->schema = index->schema;
    if (!status && !file->path)
        status = err_set(index->err, -ENOMEM, "out of memory for a list of shards");
    return status
               ? status
               : open_shard(index, queue, file, samples, bytes, jsonx_kind(zip) != JSON_KIND_NULL);
}

static int list_shards(struct mds_index *index, const struct convert_options *options,
                       struct record_file *files)
{
    const struct json_t *shards = jsonx_get(index->root, "shards");
    struct mds_schema *scratch = calloc(1, sizeof *scratch);
    struct io_queue *queue = NULL;
    int status = scratch && index->schema
                     ? index->io->ops->queue_open(index->io, 1, &queue, index->err)
                     : err_set(index->err, -ENOMEM, "out of memory for a list of shards");
    for (size_t i = 0; i < jsonx_count(shards) && !status; i++) {
        if (options->stop && atomic_load(options->stop))
            status = err_set(index->err, -EINTR, "stopped while shards were listed");
        if (!status)
            status = check_columns(index, jsonx_at(shards, i), i == 0, scratch);
        if (!status)
            status = list_shard(index, queue, jsonx_at(shards, i), &files[i]);
    }
    if (queue)
        index->io->ops->queue_close(queue);
    free(scratch);
    return status;
}

static int mds_list(struct io *io, const struct convert_options *options,
                    struct record_file **ret_files, size_t *ret_count, void **ret_state,
                    struct err *err)
{
    struct mds_index index = {.io = io, .folder = options->source, .err = err};
    struct record_file *files = NULL;
    int status = read_index(&index);
    size_t count = status ? 0 : jsonx_count(jsonx_get(index.root, "shards"));
    if (!status) {
        files = calloc(count + 1, sizeof *files);
        index.schema = calloc(1, sizeof *index.schema);
        status = files ? list_shards(&index, options, files)
                       : err_set(err, -ENOMEM, "out of memory for a list of shards");
    }
    jsonx_free(index.root);
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
    return mds_sample_decode(file->schema, data, bytes, record, err);
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
