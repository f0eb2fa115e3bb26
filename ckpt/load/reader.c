#include "ckpt/load/reader.h"

#include "base/json/jsonx.h"
#include "ckpt/format/folder.h"
#include "ckpt/format/safetensors.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int open_blocks(struct ckpt_reader *reader, unsigned ahead, struct err *err)
{
    struct blocks_options options = {.io = reader->io,
                                     .path = reader->path,
                                     .is_file = reader->is_file,
                                     .manifest = &reader->manifest,
                                     .ahead = ahead};
    return blocks_open(&options, &reader->blocks, err);
}

/* Takes ownership of the manifest, even on failure. */
static int open_manifest(struct io *io, const char *path, bool is_file, struct manifest *manifest,
                         struct ckpt_reader **ret_reader, struct err *err)
{
    struct ckpt_reader *reader = calloc(1, sizeof *reader);
    if (!reader) {
        manifest_deinit(manifest);
        return err_set(err, -ENOMEM, "not enough memory to read a checkpoint");
    }
    reader->io = io;
    reader->manifest = *manifest;
    reader->is_file = is_file;
    strcpy(reader->path, path); /* fits: files were opened below it */
    int status = open_blocks(reader, 0, err);
    if (status)
        ckpt_reader_close(reader);
    else
        *ret_reader = reader;
    return status;
}

int reader_clone(const struct ckpt_reader *reader, unsigned ahead, struct ckpt_reader **ret_reader,
                 struct err *err)
{
    struct ckpt_reader *clone = calloc(1, sizeof *clone);
    if (!clone)
        return err_set(err, -ENOMEM, "not enough memory to read a checkpoint");
    clone->io = reader->io;
    clone->manifest = reader->manifest;
    clone->is_file = reader->is_file;
    clone->is_clone = true;
    strcpy(clone->path, reader->path);
    int status = open_blocks(clone, ahead, err);
    if (status)
        ckpt_reader_close(clone);
    else
        *ret_reader = clone;
    return status;
}

int reader_lock(struct io *io, const char *step_path, struct io_shared_lock **ret_lock,
                struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    int status = io_join_path(step_path, MANIFEST_NAME, path, err);
    if (!status)
        status = io_lock_shared(io, path, false, ret_lock, err);
    if (status == -EBUSY && err) /* a removal is about to finish */
        err->code = -ENOENT;
    return status == -EBUSY ? -ENOENT : status;
}

int reader_find(struct io *io, const char *path_or_folder, const struct ckpt_find_options *options,
                char step_path[IO_PATH_BYTES_MAX], struct io_shared_lock **ret_lock,
                const struct log *log, struct err *err)
{
    enum {
        ATTEMPTS_MAX = 11,
        PAUSE_FIRST_NS = 1000000
    }; /* pauses double, to one second in total */
    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        if (attempt > 0) /* a removal is renaming the step now */
            nanosleep(&(struct timespec){.tv_nsec = (long)PAUSE_FIRST_NS << (attempt - 1)}, NULL);
        int status = options
                         ? ckpt_find_with(io, path_or_folder, options, step_path, NULL, log, err)
                         : ckpt_find(io, path_or_folder, step_path, NULL, log, err);
        if (status)
            return status;
        status = reader_lock(io, step_path, ret_lock, err);
        if (status != -ENOENT)
            return status;
    }
    err_set(err, -EAGAIN, "the checkpoint is being removed");
    err_at(err, step_path, ERR_NO_OFFSET);
    err_advise(err, "run the same command again");
    return -EAGAIN;
}

int reader_open_locked(struct io *io, const char *step_path, struct io_shared_lock *lock,
                       struct ckpt_reader **ret_reader, struct err *err)
{
    struct manifest manifest;
    int status = folder_read_step(io, step_path, &manifest, NULL, err);
    if (!status)
        status = open_manifest(io, step_path, false, &manifest, ret_reader, err);
    if (status)
        io_unlock_shared(io, lock);
    else
        (*ret_reader)->lock = lock;
    return status;
}

int ckpt_reader_open(struct io *io, const char *step_path, struct ckpt_reader **ret_reader,
                     struct err *err)
{
    struct io_shared_lock *lock;
    int status = reader_lock(io, step_path, &lock, err);
    return status ? status : reader_open_locked(io, step_path, lock, ret_reader, err);
}

void ckpt_reader_close(struct ckpt_reader *reader)
{
    if (!reader)
        return;
    blocks_close(reader->blocks);
    io_unlock_shared(reader->io, reader->lock);
    if (!reader->is_clone)
        manifest_deinit(&reader->manifest);
    free(reader);
}

/* Takes ownership of the header's JSON document; the manifest borrows its names. */
static int describe_file(struct safetensors *file, const char *path, struct manifest *ret_manifest,
                         struct err *err)
{
    struct manifest manifest = {.ranks = 1, .numerics_id = "", .root = file->root};
    file->root = NULL;
    manifest.files = calloc(1, sizeof *manifest.files);
    manifest.tensors = calloc(file->count + 1, sizeof *manifest.tensors);
    manifest.chunks = calloc(file->count + 1, sizeof *manifest.chunks);
    int status = 0;
    if (!manifest.files || !manifest.tensors || !manifest.chunks) {
        manifest_deinit(&manifest);
        return err_set(err, -ENOMEM, "out of memory for %llu tensors",
                       (unsigned long long)file->count);
    }
    manifest.files[0] =
        (struct manifest_file){.name = "",
                               .size_bytes = file->file_bytes,
                               .identity = file->identity,
                               .blocks_count = manifest_blocks_count(file->file_bytes)};
    manifest.files_count = 1;
    for (uint64_t i = 0; i < file->count; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        struct manifest_tensor *tensor = &manifest.tensors[i];
        *tensor = (struct manifest_tensor){.name = entry->name,
                                           .dtype = entry->dtype,
                                           .rank = entry->rank,
                                           .chunks_count = 1,
                                           .chunks = &manifest.chunks[i]};
        memcpy(tensor->shape, entry->shape, sizeof tensor->shape);
        memcpy(tensor->chunks->extent, entry->shape, sizeof tensor->chunks->extent);
        tensor->chunks->offset_bytes = entry->offset_bytes;
    }
    manifest.tensors_count = file->count;
    qsort(manifest.tensors, manifest.tensors_count, sizeof *manifest.tensors,
          manifest_compare_names);
    status = manifest_check_tensors(&manifest, path, err);
    if (status)
        manifest_deinit(&manifest);
    else
        *ret_manifest = manifest;
    return status;
}

static int open_file(struct io *io, const char *path, struct ckpt_reader **ret_reader,
                     struct err *err)
{
    struct safetensors file;
    struct manifest manifest;
    int status = safetensors_read(io, path, &file, err);
    if (status)
        return status;
    status = describe_file(&file, path, &manifest, err);
    safetensors_deinit(&file);
    return status ? status : open_manifest(io, path, true, &manifest, ret_reader, err);
}

static int open_step(struct io *io, const char *path, struct ckpt_reader **ret_reader,
                     const struct log *log, struct err *err)
{
    char folder[IO_PATH_BYTES_MAX], step_path[IO_PATH_BYTES_MAX];
    struct io_shared_lock *lock;
    int status = ckpt_resolve_folder(io, path, folder, err);
    if (!status)
        status = reader_find(io, folder, NULL, step_path, &lock, log, err);
    return status ? status : reader_open_locked(io, step_path, lock, ret_reader, err);
}

int reader_open_path(struct io *io, const char *path, struct ckpt_reader **ret_reader,
                     const struct log *log, struct err *err)
{
    struct io_stat info;
    int status = io->names->stat(io, path, &info, err);
    if (status)
        return status;
    return info.kind == IO_ENTRY_FILE ? open_file(io, path, ret_reader, err)
                                      : open_step(io, path, ret_reader, log, err);
}

const char *ckpt_reader_path(const struct ckpt_reader *reader)
{
    return reader->path;
}

uint64_t ckpt_reader_step(const struct ckpt_reader *reader)
{
    return reader->manifest.step;
}

const char *ckpt_reader_numerics_id(const struct ckpt_reader *reader)
{
    return reader->manifest.numerics_id;
}

const struct json_t *ckpt_reader_state(const struct ckpt_reader *reader)
{
    return reader->manifest.state;
}

struct json_t *reader_loader_state(const struct ckpt_reader *reader)
{
    const struct json_t *state = reader->manifest.state;
    struct json_t *loader = state ? jsonx_get(state, "loader") : NULL;
    return jsonx_kind(loader) == JSON_KIND_OBJECT ? loader : NULL;
}

const struct manifest *ckpt_reader_manifest(const struct ckpt_reader *reader)
{
    return &reader->manifest;
}
