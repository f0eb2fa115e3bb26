/*
 * verify — every checksum and every header of a step against its manifest; see ckpt_verify in ckpt.h.
 */
#include "base/json.h"
#include "ckpt/blocks.h"
#include "ckpt/box.h"
#include "ckpt/ckpt.h"
#include "ckpt/folder.h"
#include "ckpt/reader.h"
#include "ckpt/safetensors.h"
#include "io/whole.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check {
    struct io *io;
    const char *path;
    const struct manifest *manifest;
    bool *skipped; /* [files] not there, or of another size */
    uint32_t file; /* the next block to be asked for */
    uint64_t block;
    int bad_count;
    void (*bad)(void *context, const struct err *detail);
    void *context;
    const struct ckpt_watch *watch;
    uint64_t done_bytes, bytes; /* of the files that are there */
};

static void tell(struct check *check, const struct err *detail)
{
    if (check->bad)
        check->bad(check->context, detail);
    if (check->bad_count < INT_MAX)
        check->bad_count++;
}

static bool next_block(void *context, struct block_want *ret_want)
{
    struct check *check = context;
    const struct manifest *manifest = check->manifest;
    while (check->file < manifest->files_count &&
           (check->skipped[check->file] || check->block == manifest->files[check->file].blocks_count)) {
        check->file++;
        check->block = 0;
    }
    if (check->file == manifest->files_count)
        return false;
    *ret_want = (struct block_want){.file = check->file, .block = check->block++};
    return true;
}

/* The first tensor with bytes in the block; NULL: none, it is all header. */
static const char *tensor_in(const struct check *check, uint32_t file, uint64_t block)
{
    const struct manifest *manifest = check->manifest;
    uint64_t begin = block * CKPT_BLOCK_BYTES, end = begin + CKPT_BLOCK_BYTES, first = UINT64_MAX, bytes;
    const char *name = NULL;
    for (uint64_t i = 0; i < manifest->tensors_count; i++) {
        const struct manifest_tensor *tensor = &manifest->tensors[i];
        for (uint64_t c = 0; c < tensor->chunks_count; c++) {
            const struct manifest_chunk *chunk = &tensor->chunks[c];
            if (chunk->file == file && chunk->offset_bytes < end && chunk->offset_bytes < first &&
                !box_shape_bytes(chunk->extent, tensor->rank, tensor->dtype, &bytes) && bytes > 0 &&
                chunk->offset_bytes + bytes > begin) {
                first = chunk->offset_bytes;
                name = tensor->name;
            }
        }
    }
    return name;
}

static int take_block(void *context, const struct block_got *got)
{
    struct check *check = context;
    check->done_bytes += got->bytes;
    if (check->watch && check->watch->progress)
        check->watch->progress(check->watch->context, check->done_bytes, check->bytes);
    if (got->status == 0)
        return 0;
    struct err detail = *got->detail;
    const char *name = tensor_in(check, got->file, got->block);
    snprintf(detail.what, sizeof detail.what, "%s%.100s%s: %.100s", name ? "tensor \"" : "the header",
             name ? name : "", name ? "\"" : "", got->detail->what);
    tell(check, &detail);
    return 0;
}

/* The chunk of a tensor that the manifest places in the file; NULL: none. */
static const struct manifest_chunk *chunk_in(const struct manifest_tensor *tensor, uint32_t file)
{
    for (uint64_t c = 0; tensor && c < tensor->chunks_count; c++)
        if (tensor->chunks[c].file == file)
            return &tensor->chunks[c];
    return NULL;
}

static void check_entry(struct check *check, uint32_t file, const char *path,
                        const struct safetensors_entry *entry)
{
    const struct manifest_tensor *tensor = manifest_find(check->manifest, entry->name);
    const struct manifest_chunk *chunk = chunk_in(tensor, file);
    if (chunk && entry->offset_bytes == chunk->offset_bytes && entry->dtype == tensor->dtype &&
        entry->rank == tensor->rank &&
        memcmp(entry->shape, chunk->extent, tensor->rank * sizeof *entry->shape) == 0)
        return;
    struct err detail = {0};
    err_set(&detail, -EBADMSG, "tensor \"%.100s\": the file's header and the manifest differ", entry->name);
    err_at(&detail, path, (int64_t)entry->offset_bytes);
    tell(check, &detail);
}

/* The header of a file names just the chunks that the manifest places in it. */
static void check_header(struct check *check, uint32_t file)
{
    const struct manifest *manifest = check->manifest;
    struct safetensors header;
    struct err detail = {0};
    char path[IO_PATH_BYTES_MAX];
    int status = io_join_path(check->path, manifest->files[file].name, path, &detail);
    if (!status)
        status = safetensors_read(check->io, path, &header, &detail);
    if (status) {
        tell(check, &detail);
        return;
    }
    uint64_t placed = 0;
    for (uint64_t i = 0; i < manifest->tensors_count; i++)
        placed += chunk_in(&manifest->tensors[i], file) != NULL;
    for (uint64_t i = 0; i < header.count; i++)
        check_entry(check, file, path, &header.entries[i]);
    if (placed != header.count) {
        err_set(&detail, -EBADMSG, "the file has other tensors than the manifest places in it");
        err_at(&detail, path, 0);
        err_expected(&detail, "%" PRIu64, placed);
        err_found(&detail, "%" PRIu64, header.count);
        tell(check, &detail);
    }
    safetensors_deinit(&header);
}

int ckpt_verify(struct io *io, const char *step_path, void (*bad)(void *context, const struct err *detail),
                void *context, const struct ckpt_watch *watch, struct err *err)
{
    struct manifest manifest;
    struct blocks *blocks = NULL;
    struct check check = {
        .io = io, .path = step_path, .manifest = &manifest, .bad = bad, .context = context, .watch = watch};
    struct blocks_visitor visitor = {next_block, take_block, &check};
    struct io_hold *hold = NULL;
    uint64_t bytes;
    int status = reader_hold(io, step_path, &hold, err);
    if (!status)
        status = folder_read_manifest(io, step_path, &manifest, &bytes, err);
    if (status) {
        io_let_go(io, hold);
        return status;
    }
    check.skipped = calloc(manifest.files_count + 1, sizeof *check.skipped);
    if (!check.skipped)
        status = err_set(err, -ENOMEM, "out of memory to verify a checkpoint");
    for (uint32_t i = 0; i < manifest.files_count && !status; i++) {
        struct err detail = {0};
        check.skipped[i] = folder_check_file(io, step_path, &manifest.files[i], &detail) != 0;
        if (check.skipped[i])
            tell(&check, &detail);
        else
            check.bytes += manifest.files[i].size_bytes;
    }
    struct blocks_options options = {.io = io, .path = step_path, .manifest = &manifest};
    if (!status)
        status = blocks_open(&options, &blocks, err);
    if (!status)
        status = blocks_walk(blocks, &visitor);
    for (uint32_t i = 0; i < manifest.files_count && !status; i++)
        if (!check.skipped[i])
            check_header(&check, i);
    blocks_close(blocks);
    free(check.skipped);
    io_let_go(io, hold);
    manifest_deinit(&manifest);
    return status ? status : check.bad_count;
}
