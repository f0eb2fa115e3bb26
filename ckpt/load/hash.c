#include "ckpt/load/hash.h"

#include "base/bytes.h"
#include "base/json/jsonx_format.h"
#include "ckpt/load/tensor_stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HASH_BUFFER_BYTES = 8 << 20 };

bool hash_is_optimizer(const char *name)
{
    return strncmp(name, CKPT_OPTIMIZER_PREFIX, sizeof CKPT_OPTIMIZER_PREFIX - 1) == 0;
}

const char *ckpt_section_name(enum ckpt_section section)
{
    static const char *const names[CKPT_SECTION_COUNT] = {"model", "optimizer", "loader"};
    return names[section];
}

static void update_u32(struct hash_stream *stream, uint32_t value)
{
    hash_stream_update(stream, &value, sizeof value);
}

static void update_text(struct hash_stream *stream, const char *text, size_t bytes)
{
    update_u32(stream, (uint32_t)bytes);
    hash_stream_update(stream, text, bytes);
}

static void update_head(struct hash_stream *stream, const struct manifest_tensor *tensor,
                        enum dtype dtype)
{
    const char *type_name = dtype_name(dtype);
    update_text(stream, tensor->name, strlen(tensor->name));
    update_text(stream, type_name, strlen(type_name));
    update_u32(stream, tensor->rank);
    hash_stream_update(stream, tensor->shape, tensor->rank * sizeof tensor->shape[0]);
}

static void report_progress(struct hash_progress *progress, size_t bytes)
{
    if (!progress || !progress->progress || !progress->progress->report)
        return;
    progress->done_bytes += bytes;
    progress->progress->report(progress->progress->context, progress->done_bytes, progress->bytes);
}

/* Hashes the tensors' heads and data, read as one stream. */
static int hash_stream_tensors(struct hash_stream *stream, struct ckpt_reader *reader,
                               const struct manifest_tensor *const *tensors, uint64_t count,
                               const struct tensor_cast *cast, struct hash_progress *progress,
                               struct err *err)
{
    struct tensor_stream tensor_stream = {0};
    char *buffer = malloc(HASH_BUFFER_BYTES);
    int status = buffer ? 0 : err_set(err, -ENOMEM, "not enough memory to hash a checkpoint");
    if (!status)
        status = tensor_stream_init(&tensor_stream, reader, tensors, count, cast, err);
    size_t at = 0, filled = 0;
    for (uint64_t i = 0; i < count && !status; i++) {
        enum dtype dtype = tensor_stream_dtype(cast, tensors[i]->dtype);
        uint64_t left = manifest_tensor_elements(tensors[i]) * dtype_bytes(dtype);
        update_head(stream, tensors[i], dtype);
        while (left > 0 && !status) {
            if (at == filled) {
                at = 0;
                status =
                    tensor_stream_read(&tensor_stream, buffer, HASH_BUFFER_BYTES, &filled, err);
                if (status)
                    break;
                report_progress(progress, filled);
                if (progress && progress->stop && atomic_load(progress->stop)) {
                    status = err_set(err, -EINTR, "stopped on request");
                    break;
                }
            }
            size_t part = bytes_min(left, filled - at);
            hash_stream_update(stream, buffer + at, part);
            at += part;
            left -= part;
        }
    }
    tensor_stream_deinit(&tensor_stream);
    free(buffer);
    return status;
}

int hash_tensors(struct ckpt_reader *reader,
                 bool (*is_selected)(const void *context, const char *name), const void *context,
                 const struct tensor_cast *cast, struct hash_progress *progress,
                 uint64_t *ret_count, struct hash128 *ret_hash, struct err *err)
{
    const struct manifest *manifest = &reader->manifest;
    struct hash_stream *stream = hash_stream_open();
    const struct manifest_tensor **tensors =
        calloc(manifest->tensors_count + 1, sizeof(const struct manifest_tensor *));
    uint64_t count = 0;
    int status =
        stream && tensors ? 0 : err_set(err, -ENOMEM, "not enough memory to hash a checkpoint");
    for (uint64_t i = 0; i < manifest->tensors_count && !status; i++) /* sorted by name */
        if (is_selected(context, manifest->tensors[i].name))
            tensors[count++] = &manifest->tensors[i];
    if (!status)
        status = hash_stream_tensors(stream, reader, tensors, count, cast, progress, err);
    if (!status) {
        *ret_hash = hash_stream_128(stream);
        *ret_count = count;
    }
    free(tensors);
    hash_stream_close(stream);
    return status;
}

static bool is_in_section(const void *context, const char *name)
{
    return hash_is_optimizer(name) == (*(const enum ckpt_section *)context == CKPT_OPTIMIZER);
}

static int hash_loader(struct json_t *loader, struct hash128 *ret_hash, struct err *err)
{
    struct hash_stream *stream = hash_stream_open();
    struct jsonx_member *members = NULL;
    struct str text = {0};
    size_t count = 0;
    int status = stream ? jsonx_members(loader, &members, &count) : -ENOMEM;
    for (size_t i = 0; i < count && !status; i++) {
        str_clear(&text);
        status = jsonx_format(members[i].value, &text);
        update_text(stream, members[i].key, strlen(members[i].key));
        update_text(stream, str_text(&text), text.bytes);
    }
    if (status)
        err_set(err, status, "not enough memory to hash the loader's state");
    else
        *ret_hash = hash_stream_128(stream);
    str_deinit(&text);
    free(members);
    hash_stream_close(stream);
    return status;
}

static uint64_t total_bytes(const struct manifest *manifest)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < manifest->tensors_count; i++)
        sum += manifest_tensor_elements(&manifest->tensors[i]) *
               dtype_bytes(manifest->tensors[i].dtype);
    return sum;
}

int ckpt_hash(struct io *io, const char *path, struct ckpt_hashes *ret_hashes,
              const struct log *log, const struct ckpt_progress *progress, struct err *err)
{
    struct ckpt_reader *reader;
    struct ckpt_hashes hashes = {0};
    int status = reader_open_path(io, path, &reader, log, err);
    if (status)
        return status;
    struct hash_progress hashing = {.progress = progress, .bytes = total_bytes(&reader->manifest)};
    for (enum ckpt_section section = CKPT_MODEL; section <= CKPT_OPTIMIZER && !status; section++) {
        uint64_t count = 0;
        status = hash_tensors(reader, is_in_section, &section, NULL, &hashing, &count,
                              &hashes.hash[section], err);
        hashes.present[section] = count > 0;
    }
    struct json_t *loader = reader_loader_state(reader);
    hashes.present[CKPT_LOADER] = loader != NULL;
    if (!status && hashes.present[CKPT_LOADER])
        status = hash_loader(loader, &hashes.hash[CKPT_LOADER], err);
    ckpt_reader_close(reader);
    if (!status)
        *ret_hashes = hashes;
    return status;
}
