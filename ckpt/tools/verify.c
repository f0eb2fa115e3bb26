#include "ckpt/tools/verify.h"

#include "base/json/jsonx.h"
#include "ckpt/format/box.h"
#include "ckpt/format/folder.h"
#include "ckpt/format/safetensors.h"
#include "ckpt/load/blocks.h"
#include "ckpt/load/reader.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verification {
    const struct verify_options *options;
    struct io *io;
    const char *path;
    const struct manifest *manifest;
    bool *skipped;         /* [files] absent, perhaps on another node, or of the wrong size */
    uint64_t *first_block; /* [files] index of the file's first block in is_bad */
    bool *is_bad;          /* blocks to read again and report */
    uint32_t file;         /* file of the next block to request */
    uint64_t block;
    int bad_count;
    struct err *err;
};

/* -ESTALE if the step was saved again or removed. */
static int report_difference(struct verification *check, const struct err *detail)
{
    struct err cause = *detail;
    if (folder_classify_failure(check->io, check->path, check->manifest, detail->code, &cause) ==
        -ESTALE) {
        if (check->err)
            *check->err = cause;
        return -ESTALE;
    }
    if (check->options->bad)
        check->options->bad(check->options->context, detail);
    if (check->bad_count < INT_MAX)
        check->bad_count++;
    return 0;
}

static bool next_block(void *context, struct block_request *ret_request)
{
    struct verification *check = context;
    const struct manifest *manifest = check->manifest;
    for (; check->file < manifest->files_count; check->file++, check->block = 0) {
        for (; check->block < manifest->files[check->file].blocks_count; check->block++) {
            if (check->is_bad[check->first_block[check->file] + check->block]) {
                *ret_request = (struct block_request){.file = check->file, .block = check->block++};
                return true;
            }
        }
    }
    return false;
}

/* Returns the first tensor with bytes in the block; NULL: the block is all header. */
static const char *find_tensor(const struct verification *check, uint32_t file, uint64_t block)
{
    const struct manifest *manifest = check->manifest;
    uint64_t begin = block * CKPT_BLOCK_BYTES, end = begin + CKPT_BLOCK_BYTES, first = UINT64_MAX,
             bytes;
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

static void describe_flaky_read(const struct verification *check, const struct block_result *result,
                                struct err *detail)
{
    char path[IO_PATH_BYTES_MAX] = "";
    io_join_path(check->path, check->manifest->files[result->file].name, path, NULL);
    err_set(detail, -EIO,
            "a block was bad when it was first read, but good when it was read again");
    err_at(detail, path, (int64_t)(result->block * CKPT_BLOCK_BYTES));
    err_advise(detail, "check the disk and the memory of this machine");
}

static int take_block(void *context, const struct block_result *result)
{
    struct verification *check = context;
    struct err detail, again = *result->detail;
    if (result->status == 0)
        describe_flaky_read(check, result, &again);
    detail = again;
    const char *name = find_tensor(check, result->file, result->block);
    snprintf(detail.what, sizeof detail.what, "%s%.100s%s: %.100s",
             name ? "tensor \"" : "the header", name ? name : "", name ? "\"" : "", again.what);
    return report_difference(check, &detail);
}

/* Returns the tensor's chunk in the file; NULL: none. */
static const struct manifest_chunk *find_chunk(const struct manifest_tensor *tensor, uint32_t file)
{
    for (uint64_t c = 0; tensor && c < tensor->chunks_count; c++)
        if (tensor->chunks[c].file == file)
            return &tensor->chunks[c];
    return NULL;
}

static int check_entry(struct verification *check, uint32_t file, const char *path,
                       const struct safetensors_entry *entry)
{
    const struct manifest_tensor *tensor = manifest_find_tensor(check->manifest, entry->name);
    const struct manifest_chunk *chunk = find_chunk(tensor, file);
    if (chunk && entry->offset_bytes == chunk->offset_bytes && entry->dtype == tensor->dtype &&
        entry->rank == tensor->rank &&
        memcmp(entry->shape, chunk->extent, tensor->rank * sizeof *entry->shape) == 0)
        return 0;
    struct err detail = {0};
    err_set(&detail, -EBADMSG, "tensor \"%.100s\": the file header and the manifest differ",
            entry->name);
    err_at(&detail, path, (int64_t)entry->offset_bytes);
    return report_difference(check, &detail);
}

/* A file's header must list exactly the manifest's chunks. Another node's file may also have its
 * own node's copies of replicated arrays. */
static int check_header(struct verification *check, uint32_t file)
{
    const struct manifest *manifest = check->manifest;
    struct safetensors header;
    struct err detail = {0};
    char path[IO_PATH_BYTES_MAX];
    int status = io_join_path(check->path, manifest->files[file].name, path, &detail);
    if (!status)
        status = safetensors_read(check->io, path, &header, &detail);
    if (status)
        return report_difference(check, &detail);
    uint64_t expected_count = 0;
    for (uint64_t i = 0; i < manifest->tensors_count; i++)
        expected_count += find_chunk(&manifest->tensors[i], file) != NULL;
    uint64_t replicas_count = 0;
    for (uint64_t i = 0; i < header.count && !status; i++) {
        const struct safetensors_entry *entry = &header.entries[i];
        if (manifest->files[file].is_elsewhere &&
            !find_chunk(manifest_find_tensor(manifest, entry->name), file))
            replicas_count++;
        else
            status = check_entry(check, file, path, entry);
    }
    if (!status && expected_count + replicas_count != header.count) {
        err_set(&detail, -EBADMSG, "the number of tensors in the file differs from the manifest");
        err_at(&detail, path, 0);
        err_expected(&detail, "%" PRIu64, expected_count);
        err_found(&detail, "%" PRIu64, header.count - replicas_count);
        status = report_difference(check, &detail);
    }
    safetensors_deinit(&header);
    return status;
}

/* Whether this share checks the file's header and size. */
static bool is_in_share(const struct verification *check, uint32_t file)
{
    return scan_share_has(&check->options->share, file, 0);
}

static int find_files(struct verification *check, uint64_t *ret_bytes, struct err *err)
{
    const struct manifest *manifest = check->manifest;
    uint64_t blocks = 0, bytes = 0;
    check->skipped = calloc(manifest->files_count + 1, sizeof *check->skipped);
    check->first_block = calloc(manifest->files_count + 1, sizeof *check->first_block);
    if (!check->skipped || !check->first_block)
        return err_set(err, -ENOMEM, "not enough memory to verify a checkpoint");
    for (uint32_t i = 0; i < manifest->files_count; i++) {
        struct err detail = {0};
        check->first_block[i] = blocks;
        blocks += manifest->files[i].blocks_count;
        bool has_file = folder_expects_file(check->io, check->path, &manifest->files[i]);
        check->skipped[i] = !has_file || folder_check_file(check->io, check->path,
                                                           &manifest->files[i], &detail) != 0;
        int status = has_file && check->skipped[i] && is_in_share(check, i)
                         ? report_difference(check, &detail)
                         : 0;
        if (status)
            return status;
        if (!check->skipped[i])
            bytes += manifest->files[i].size_bytes;
    }
    check->is_bad = calloc(blocks + 1, sizeof *check->is_bad);
    if (!check->is_bad)
        return err_set(err, -ENOMEM, "not enough memory to verify %" PRIu64 " blocks", blocks);
    *ret_bytes = bytes;
    return 0;
}

/* Scans with several threads, then reads the bad blocks again on this thread to report them in
 * order. */
static int check_blocks(struct verification *check, uint64_t bytes, struct err *err)
{
    struct blocks *blocks = NULL;
    struct blocks_visitor visitor = {next_block, take_block, check};
    const struct scan_options scan = {.io = check->io,
                                      .path = check->path,
                                      .manifest = check->manifest,
                                      .share = check->options->share,
                                      .skipped = check->skipped,
                                      .first_block = check->first_block,
                                      .bytes = bytes / check->options->share.count,
                                      .progress = check->options->progress};
    struct blocks_options options = {
        .io = check->io, .path = check->path, .manifest = check->manifest};
    int64_t bad = scan_blocks(&scan, check->is_bad, err);
    if (bad <= 0)
        return (int)bad;
    int status = blocks_open(&options, &blocks, err);
    if (!status)
        status = blocks_walk(blocks, &visitor);
    blocks_close(blocks);
    return status;
}

int verify_share(const struct verify_options *options, struct err *err)
{
    struct io *io = options->io;
    struct manifest manifest;
    struct verification check = {.options = options,
                                 .io = io,
                                 .path = options->step_path,
                                 .manifest = &manifest,
                                 .err = err};
    struct io_shared_lock *lock = NULL;
    uint64_t bytes;
    int status = reader_lock(io, check.path, &lock, err);
    if (!status)
        status = folder_read_manifest(io, check.path, &manifest, &bytes, err);
    if (status) {
        io_unlock_shared(io, lock);
        return status;
    }
    status = find_files(&check, &bytes, err);
    if (!status)
        status = check_blocks(&check, bytes, err);
    for (uint32_t i = 0; i < manifest.files_count && !status; i++)
        if (!check.skipped[i] && is_in_share(&check, i))
            status = check_header(&check, i);
    free(check.skipped);
    free(check.first_block);
    free(check.is_bad);
    io_unlock_shared(io, lock);
    manifest_deinit(&manifest);
    return status ? status : check.bad_count;
}

int ckpt_verify(struct io *io, const char *step_path,
                void (*bad)(void *context, const struct err *detail), void *context,
                const struct ckpt_progress *progress, struct err *err)
{
    const struct verify_options all = {.io = io,
                                       .step_path = step_path,
                                       .share = {.number = 0, .count = 1},
                                       .bad = bad,
                                       .context = context,
                                       .progress = progress};
    return verify_share(&all, err);
}
