#include "ckpt/load/weights.h"

#include "base/json/jsonx.h"
#include "base/str.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INDEX_BYTES_MAX = 64 << 20 };

struct weights_file {
    char name[IO_NAME_BYTES_MAX];
    struct ckpt_reader *reader;
};

struct weights {
    struct io *io;
    const struct log *log;
    struct weights_file *files;
    size_t count, capacity;
};

static struct weights_file *add_file(struct weights *weights, const char *name, struct err *err)
{
    if (weights->count == weights->capacity) {
        size_t capacity = weights->capacity ? 2 * weights->capacity : 4;
        struct weights_file *files = realloc(weights->files, capacity * sizeof *files);
        if (!files) {
            err_set(err, -ENOMEM, "out of memory for the files of a model");
            return NULL;
        }
        weights->files = files;
        weights->capacity = capacity;
    }
    struct weights_file *file = &weights->files[weights->count];
    *file = (struct weights_file){0};
    snprintf(file->name, sizeof file->name, "%s", name);
    return file;
}

static int open_file(struct weights *weights, const char *path, const char *name, struct err *err)
{
    struct weights_file *file = add_file(weights, name, err);
    if (!file)
        return -ENOMEM;
    int status = reader_open_path(weights->io, path, &file->reader, weights->log, err);
    if (!status)
        weights->count++;
    return status;
}

struct index_walk {
    struct weights *weights;
    const char *folder, *path;
    struct err *err;
};

static int entry_error(const struct index_walk *walk, const char *key, const char *found)
{
    err_set(walk->err, -EBADMSG, "the index of a sharded model names no file for tensor \"%.100s\"",
            key);
    err_at(walk->err, walk->path, ERR_NO_OFFSET);
    err_expected(walk->err, "the name of a file in the same folder, one of at most %d files",
                 WEIGHTS_FILES_MAX);
    err_found(walk->err, "%.100s", found);
    return -EBADMSG;
}

static int open_entry(void *context, const char *key, struct json_t *value)
{
    const struct index_walk *walk = context;
    struct weights *weights = walk->weights;
    char path[IO_PATH_BYTES_MAX];
    const char *name;
    if (jsonx_text(value, &name))
        return entry_error(walk, key, "not a string");
    if (!*name || strlen(name) >= IO_NAME_BYTES_MAX || strchr(name, '/') || name[0] == '.')
        return entry_error(walk, key, name);
    for (size_t i = weights->count; i-- > 0;)
        if (strcmp(weights->files[i].name, name) == 0)
            return 0;
    if (weights->count == WEIGHTS_FILES_MAX)
        return entry_error(walk, key, "more files");
    int status = io_join_path(walk->folder, name, path, walk->err);
    return status ? status : open_file(weights, path, name, walk->err);
}

static int open_index(struct weights *weights, const char *path, struct err *err)
{
    char folder[IO_PATH_BYTES_MAX], *text = NULL;
    size_t bytes = 0;
    struct json_t *root = NULL;
    io_parent_path(path, folder);
    int status = io_read_file(weights->io, path, INDEX_BYTES_MAX, &text, &bytes, err);
    if (!status)
        status = jsonx_parse(text, bytes, path, 0, &root, err);
    if (!status) {
        struct index_walk walk = {.weights = weights, .folder = folder, .path = path, .err = err};
        status = jsonx_each(jsonx_get(root, "weight_map"), open_entry, &walk);
    }
    if (!status && weights->count == 0) {
        status = err_set(err, -EBADMSG, "the index of a sharded model has no \"weight_map\"");
        err_at(err, path, ERR_NO_OFFSET);
    }
    jsonx_free(root);
    free(text);
    return status;
}

static bool is_file(struct io *io, const char *path)
{
    struct io_stat info;
    return io->names->stat(io, path, &info, NULL) == 0 && info.kind == IO_ENTRY_FILE;
}

static int open_path(struct weights *weights, const char *path, struct err *err)
{
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors"};
    char file_path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    int status = weights->io->names->stat(weights->io, path, &info, err);
    if (status)
        return status;
    if (info.kind == IO_ENTRY_FILE)
        return str_ends_with(path, ".json") ? open_index(weights, path, err)
                                            : open_file(weights, path, "", err);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        status = io_join_path(path, names[i], file_path, err);
        if (status)
            return status;
        if (is_file(weights->io, file_path))
            return i == 0 ? open_index(weights, file_path, err)
                          : open_file(weights, file_path, "", err);
    }
    return open_file(weights, path, "", err);
}

int weights_open(struct io *io, const char *path, struct weights **ret_weights,
                 const struct log *log, struct err *err)
{
    struct weights *weights = calloc(1, sizeof *weights);
    if (!weights)
        return err_set(err, -ENOMEM, "not enough memory to read a model");
    weights->io = io;
    weights->log = log;
    int status = open_path(weights, path, err);
    if (status)
        weights_close(weights);
    else
        *ret_weights = weights;
    return status;
}

void weights_close(struct weights *weights)
{
    if (!weights)
        return;
    for (size_t i = 0; i < weights->count; i++)
        ckpt_reader_close(weights->files[i].reader);
    free(weights->files);
    free(weights);
}

bool weights_find(const struct weights *weights, const char *name,
                  struct weights_tensor *ret_tensor)
{
    for (size_t i = 0; i < weights->count; i++) {
        struct ckpt_reader *reader = weights->files[i].reader;
        const struct manifest_tensor *tensor = manifest_find_tensor(&reader->manifest, name);
        if (tensor) {
            *ret_tensor = (struct weights_tensor){reader, tensor};
            return true;
        }
    }
    return false;
}

int weights_read(const struct weights_tensor *tensor, const uint64_t *start, const uint64_t *extent,
                 float *values, struct err *err)
{
    const struct manifest_tensor *stored = tensor->tensor;
    if (stored->dtype != DTYPE_F32 && stored->dtype != DTYPE_F16 && stored->dtype != DTYPE_BF16) {
        err_set(err, -ENOTSUP, "the dtype of tensor \"%.100s\" is not supported by any model",
                stored->name);
        err_at(err, tensor->reader->path, ERR_NO_OFFSET);
        err_expected(err, "F32, BF16 or F16");
        err_found(err, "%s", dtype_name(stored->dtype));
        return -ENOTSUP;
    }
    struct ckpt_tensor wanted = {.name = stored->name,
                                 .dtype = DTYPE_F32,
                                 .rank = stored->rank,
                                 .cast = true,
                                 .data = values};
    memcpy(wanted.shape, stored->shape, sizeof wanted.shape);
    memcpy(wanted.start, start, stored->rank * sizeof start[0]);
    memcpy(wanted.extent, extent, stored->rank * sizeof extent[0]);
    return ckpt_reader_load(tensor->reader, &wanted, 1, NULL, err);
}
