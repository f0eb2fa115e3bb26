/*
 * safetensors — reads headers. safetensors_write.c writes them.
 *
 * Header errors give the file offset of the entry's key; data errors give the offset of the data.
 */
#include "ckpt/format/safetensors.h"

#include "base/bytes.h"
#include "base/json/jsonx.h"
#include "ckpt/format/box.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };

struct header_parse {
    const char *header, *path;
    uint64_t header_bytes, file_bytes;
    struct safetensors *file;
    struct err *err;
};

/* Returns the file offset of the quoted name in the header, or of the header itself if the name
 * contains escapes. */
static int64_t find_name_offset(const struct header_parse *parse, const char *name)
{
    size_t name_bytes = strlen(name);
    const char *at = parse->header, *end = parse->header + parse->header_bytes;
    while ((at = memmem(at, (size_t)(end - at), name, name_bytes))) {
        if (at > parse->header && at[-1] == '"' && at + name_bytes < end && at[name_bytes] == '"')
            return LENGTH_BYTES + (at - 1 - parse->header);
        if (++at >= end)
            break;
    }
    return LENGTH_BYTES;
}

static int tensor_error(const struct header_parse *parse, const char *name, int64_t offset,
                        const char *problem)
{
    err_set(parse->err, -EBADMSG, "safetensors: %s: tensor \"%.100s\"", problem, name);
    err_at(parse->err, parse->path, offset);
    return -EBADMSG;
}

static int entry_error(const struct header_parse *parse, const char *name, const char *problem,
                       const char *expected)
{
    tensor_error(parse, name, find_name_offset(parse, name), problem);
    err_expected(parse->err, "%s", expected);
    return -EBADMSG;
}

static int parse_shape(const struct header_parse *parse, const char *name, struct json_t *value,
                       struct safetensors_entry *entry)
{
    struct json_t *shape = jsonx_get(value, "shape");
    if (!shape || jsonx_kind(shape) != JSON_KIND_ARRAY)
        return entry_error(parse, name, "no shape", "an array of dimensions");
    if (jsonx_count(shape) > DTYPE_RANK_MAX)
        return entry_error(parse, name, "too many dimensions", "at most 8");
    entry->rank = (uint32_t)jsonx_count(shape);
    for (uint32_t d = 0; d < entry->rank; d++)
        if (jsonx_u64(jsonx_at(shape, d), &entry->shape[d]))
            return entry_error(parse, name, "a dimension is not a size", "non-negative integers");
    if (box_shape_bytes(entry->shape, entry->rank, entry->dtype, &entry->size_bytes))
        return entry_error(parse, name, "the shape's product overflows", "less than 2^64 bytes");
    return 0;
}

/* Sets offset_bytes relative to the data; check_tiling makes it relative to the file. */
static int parse_offsets(const struct header_parse *parse, const char *name, struct json_t *value,
                         struct safetensors_entry *entry)
{
    struct json_t *offsets = jsonx_get(value, "data_offsets");
    uint64_t begin, end;
    if (!offsets || jsonx_kind(offsets) != JSON_KIND_ARRAY || jsonx_count(offsets) != 2)
        return entry_error(parse, name, "no data_offsets", "an array of begin and end");
    if (jsonx_u64(jsonx_at(offsets, 0), &begin) || jsonx_u64(jsonx_at(offsets, 1), &end))
        return entry_error(parse, name, "an offset is not a non-negative integer",
                           "non-negative integers");
    if (end < begin)
        return entry_error(parse, name, "data_offsets end before they begin", "begin <= end");
    if (end - begin != entry->size_bytes) {
        tensor_error(parse, name, find_name_offset(parse, name),
                     "data_offsets do not match shape and dtype");
        err_expected(parse->err, "%" PRIu64 " bytes", entry->size_bytes);
        err_found(parse->err, "%" PRIu64, end - begin);
        return -EBADMSG;
    }
    entry->offset_bytes = begin;
    return 0;
}

static int check_metadata_value(void *context, const char *key, struct json_t *value)
{
    const struct header_parse *parse = context;
    if (jsonx_kind(value) == JSON_KIND_STRING)
        return 0;
    err_set(parse->err, -EBADMSG,
            "safetensors: a value of __metadata__ is not a string: \"%.100s\"", key);
    err_at(parse->err, parse->path, find_name_offset(parse, key));
    return -EBADMSG;
}

static int parse_metadata(struct header_parse *parse, struct json_t *value)
{
    if (jsonx_kind(value) == JSON_KIND_OBJECT)
        return jsonx_each(value, check_metadata_value, parse);
    err_set(parse->err, -EBADMSG, "safetensors: __metadata__ is not an object");
    err_at(parse->err, parse->path, find_name_offset(parse, "__metadata__"));
    return -EBADMSG;
}

static int parse_entry(void *context, const char *name, struct json_t *value)
{
    struct header_parse *parse = context;
    if (strcmp(name, "__metadata__") == 0)
        return parse_metadata(parse, value);
    if (jsonx_kind(value) != JSON_KIND_OBJECT)
        return entry_error(parse, name, "the entry is not an object",
                           "{\"dtype\", \"shape\", \"data_offsets\"}");
    struct safetensors_entry entry = {.name = name};
    const char *dtype;
    if (jsonx_text(jsonx_get(value, "dtype"), &dtype))
        return entry_error(parse, name, "no dtype", "a string");
    if (!dtype_from_name(dtype, &entry.dtype)) {
        tensor_error(parse, name, find_name_offset(parse, name), "unknown dtype");
        err_found(parse->err, "%.40s", dtype);
        return -EBADMSG;
    }
    int status = parse_shape(parse, name, value, &entry);
    if (!status)
        status = parse_offsets(parse, name, value, &entry);
    if (!status)
        parse->file->entries[parse->file->count++] = entry;
    return status;
}

static int compare_offsets(const void *a, const void *b)
{
    const struct safetensors_entry *x = a, *y = b;
    if (x->offset_bytes != y->offset_bytes)
        return x->offset_bytes < y->offset_bytes ? -1 : 1;
    if (x->size_bytes != y->size_bytes)
        return x->size_bytes < y->size_bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Sorted by offset, tensors must fill the data without holes or overlaps. */
static int check_tiling(struct header_parse *parse)
{
    struct safetensors *file = parse->file;
    qsort(file->entries, file->count, sizeof *file->entries, compare_offsets);
    uint64_t at = 0, available = file->file_bytes - file->data_offset;
    for (uint64_t i = 0; i < file->count; i++) {
        struct safetensors_entry *entry = &file->entries[i];
        if (entry->offset_bytes != at) {
            tensor_error(parse, entry->name, (int64_t)(file->data_offset + at),
                         entry->offset_bytes < at ? "tensors overlap" : "a gap before the tensor");
            err_expected(parse->err, "begin %" PRIu64, at);
            err_found(parse->err, "%" PRIu64, entry->offset_bytes);
            return -EBADMSG;
        }
        if (entry->size_bytes > available - at) {
            tensor_error(parse, entry->name, (int64_t)file->file_bytes,
                         "the file ends within the data");
            err_expected(parse->err, "at least %" PRIu64 " bytes of data", at + entry->size_bytes);
            err_found(parse->err, "%" PRIu64, available);
            return -EBADMSG;
        }
        at += entry->size_bytes;
        entry->offset_bytes += file->data_offset;
    }
    if (at == available)
        return 0;
    err_set(parse->err, -EBADMSG, "safetensors: data beyond the last tensor");
    err_at(parse->err, parse->path, (int64_t)(file->data_offset + at));
    err_expected(parse->err, "a file of %" PRIu64 " bytes", file->data_offset + at);
    err_found(parse->err, "%" PRIu64, file->file_bytes);
    return -EBADMSG;
}

static int check_length(uint64_t header_bytes, uint64_t file_bytes, const char *path,
                        struct err *err)
{
    if (header_bytes <= SAFETENSORS_HEADER_BYTES_MAX && header_bytes <= file_bytes - LENGTH_BYTES)
        return 0;
    err_set(err, -EBADMSG, "safetensors: the header length is out of range");
    err_at(err, path, 0);
    err_expected(err, "at most %" PRIu64,
                 bytes_min(SAFETENSORS_HEADER_BYTES_MAX, file_bytes - LENGTH_BYTES));
    err_found(err, "%" PRIu64, header_bytes);
    return -EBADMSG;
}

int safetensors_parse(const char *header, uint64_t header_bytes, uint64_t file_bytes,
                      const char *path, struct safetensors *ret_file, struct err *err)
{
    struct safetensors file = {.data_offset = LENGTH_BYTES + header_bytes,
                               .file_bytes = file_bytes};
    struct header_parse parse = {header, path, header_bytes, file_bytes, &file, err};
    if (file_bytes < LENGTH_BYTES) {
        err_set(err, -EBADMSG, "safetensors: the file is too short");
        err_at(err, path, 0);
        return -EBADMSG;
    }
    int status = check_length(header_bytes, file_bytes, path, err);
    if (status)
        return status;
    if (header_bytes == 0 || header[0] != '{') {
        err_set(err, -EBADMSG, "safetensors: the header is not an object");
        err_at(err, path, LENGTH_BYTES);
        err_expected(err, "{ as its first byte");
        return -EBADMSG;
    }
    status = jsonx_parse(header, (size_t)header_bytes, path, LENGTH_BYTES, &file.root, err);
    if (status)
        return status;
    file.entries = calloc(jsonx_count(file.root) + 1, sizeof *file.entries);
    if (!file.entries)
        status = err_set(err, -ENOMEM, "out of memory for %zu tensors", jsonx_count(file.root));
    if (!status)
        status = jsonx_each(file.root, parse_entry, &parse);
    if (!status)
        status = check_tiling(&parse);
    if (status)
        safetensors_deinit(&file);
    else
        *ret_file = file;
    return status;
}

/* torch.save writes a zip file, or in its old format a pickle with protocol 2. */
static int refuse_pickle(const unsigned char length[LENGTH_BYTES], const char *path,
                         struct err *err)
{
    if (memcmp(length, "PK\3\4", 4) != 0 && memcmp(length, "\x80\x02\x8a\x0a", 4) != 0)
        return 0;
    err_set(err, -EBADMSG, "this is a PyTorch pickle file");
    err_at(err, path, 0);
    err_expected(err, "safetensors");
    err_advise(err, "save its tensors with PyTorch: safetensors.torch.save_file(torch.load(PATH, "
                    "map_location=\"cpu\", weights_only=True), \"model.safetensors\")");
    return -EBADMSG;
}

int safetensors_read(struct io *io, const char *path, struct safetensors *ret_file, struct err *err)
{
    struct io_file *file = NULL;
    struct io_queue *queue = NULL;
    struct io_identity identity;
    char *header = NULL;
    unsigned char length[LENGTH_BYTES];
    int status = io->ops->file_open(io, path, &file, err);
    if (status)
        return status;
    uint64_t file_bytes = io->ops->file_size(file);
    if (file_bytes < LENGTH_BYTES) {
        err_set(err, status = -EBADMSG, "safetensors: the file is too short for the header length");
        err_at(err, path, 0);
        err_expected(err, "at least 8 bytes");
        err_found(err, "%" PRIu64, file_bytes);
        goto out;
    }
    status = io->ops->queue_open(io, 1, &queue, err);
    if (!status)
        status = io_read_exact(queue, io, file, path, 0, length, sizeof length, err);
    if (status)
        goto out;
    uint64_t header_bytes = bytes_get_u64(length);
    status = refuse_pickle(length, path, err);
    if (!status)
        status = check_length(header_bytes, file_bytes, path, err);
    if (status)
        goto out;
    header = malloc((size_t)header_bytes + 1);
    if (!header) {
        status =
            err_set(err, -ENOMEM, "out of memory for a header of %" PRIu64 " bytes", header_bytes);
        goto out;
    }
    status = io_read_exact(queue, io, file, path, LENGTH_BYTES, header, (size_t)header_bytes, err);
    if (!status)
        status = io->ops->file_identity(file, &identity, err);
    if (!status)
        status = safetensors_parse(header, header_bytes, file_bytes, path, ret_file, err);
    if (!status)
        ret_file->identity = identity;
out:
    free(header);
    if (queue)
        io->ops->queue_close(queue);
    io->ops->file_close(file);
    return status;
}

void safetensors_deinit(struct safetensors *file)
{
    free(file->entries);
    jsonx_free(file->root);
    *file = (struct safetensors){0};
}
