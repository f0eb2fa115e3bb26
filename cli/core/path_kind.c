#include "cli/core/path_kind.h"

#include "base/bytes.h"
#include "base/str.h"
#include "ckpt/format/manifest.h"
#include "ckpt/format/safetensors.h"
#include "image/formats/pixels.h"
#include "io/file_util.h"
#include "shards/dataset/url_list.h"
#include "shards/format/npy_header.h"
#include "shards/format/shard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATASET_NAME "dataset.json"
#define STEP_PREFIX  "step-"
#define METRICS_NAME "metrics.jsonl"

enum { HEAD_BYTES = 263, TAR_MAGIC_AT = 257 }; /* includes the tar magic; old tars have none */

const char *path_kind_name(enum path_kind kind)
{
    static const char *const names[PATH_KIND_COUNT] = {
        "dataset", "datasets", "shard", "checkpoint", "checkpoints", "safetensors",
        "run",     "npy",      "jpeg",  "png",        "webp",        "ppm"};
    return names[kind];
}

static bool is_named(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, name) == 0;
}

static bool entry_exists(struct io *io, const char *folder, const char *name)
{
    char path[IO_PATH_BYTES_MAX];
    struct io_stat stat;
    return io_join_path(folder, name, path, NULL) == 0 &&
           io->names->stat(io, path, &stat, NULL) == 0;
}

struct folder_scan {
    struct io *io;
    const char *folder;
    int (*each)(void *context, const char *path);
    void *context;
    bool has_steps, has_datasets;
};

static int scan_entry(void *context, const struct io_entry *entry)
{
    struct folder_scan *scan = context;
    char path[IO_PATH_BYTES_MAX];
    if (entry->kind != IO_ENTRY_FOLDER || entry->name[0] == '.' ||
        io_join_path(scan->folder, entry->name, path, NULL))
        return 0;
    if (strncmp(entry->name, STEP_PREFIX, strlen(STEP_PREFIX)) == 0)
        scan->has_steps = true;
    if (!entry_exists(scan->io, path, DATASET_NAME))
        return 0;
    scan->has_datasets = true;
    return scan->each ? scan->each(scan->context, path) : 0;
}

static int kind_of_folder(struct io *io, const char *path, enum path_kind *ret_kind,
                          struct err *err)
{
    struct folder_scan scan = {.io = io, .folder = path};
    if (entry_exists(io, path, DATASET_NAME)) {
        *ret_kind = PATH_DATASET;
        return 0;
    }
    if (entry_exists(io, path, MANIFEST_NAME)) {
        *ret_kind = PATH_CHECKPOINT;
        return 0;
    }
    int status = io->names->list(io, path, scan_entry, &scan, err);
    if (status)
        return status;
    if (scan.has_steps || scan.has_datasets) {
        *ret_kind = scan.has_steps ? PATH_CHECKPOINTS : PATH_DATASETS;
        return 0;
    }
    err_set(err, -ENOTSUP, "not a dataset or a checkpoint");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, DATASET_NAME ", " MANIFEST_NAME " or folders that contain one");
    err_advise(err,
               "run `millrace convert dataset` to convert a folder of photos or text to a dataset");
    return -ENOTSUP;
}

static int kind_of_file(struct io *io, const char *path, enum path_kind *ret_kind, struct err *err)
{
    static const enum path_kind kinds[IMAGE_KIND_COUNT] = {[IMAGE_JPEG] = PATH_JPEG,
                                                           [IMAGE_PNG] = PATH_PNG,
                                                           [IMAGE_WEBP] = PATH_WEBP,
                                                           [IMAGE_PPM] = PATH_PPM};
    uint8_t head[HEAD_BYTES] = {0};
    struct io_head read;
    bool has_trailer;
    int status = shard_has_trailer(io, path, &has_trailer, err);
    if (!status)
        status = io_read_head(io, path, HEAD_BYTES, &read, err);
    if (status)
        return status;
    enum image_kind image = image_kind_of(read.data, read.bytes);
    memcpy(head, read.data, read.bytes);
    free(read.data);
    /* opening a file that only its name identifies reports errors in its content */
    if (has_trailer || str_ends_with_nocase(path, ".tar") ||
        str_ends_with_nocase(path, ".tar.zst") || memcmp(head + TAR_MAGIC_AT, "ustar", 5) == 0)
        *ret_kind = PATH_SHARD;
    else if (str_ends_with_nocase(path, ".jsonl"))
        *ret_kind = PATH_RUN;
    else if (head[0] == '{')
        *ret_kind = PATH_DATASET;
    else if (str_ends_with_nocase(path, ".safetensors") ||
             (head[8] == '{' && bytes_get_u64(head) < SAFETENSORS_HEADER_BYTES_MAX))
        *ret_kind = PATH_SAFETENSORS;
    else if (memcmp(head, NPY_MAGIC, strlen(NPY_MAGIC)) == 0)
        *ret_kind = PATH_NPY;
    else if (image != IMAGE_UNKNOWN)
        *ret_kind = kinds[image];
    else if (str_ends_with_nocase(path, ".npy"))
        *ret_kind = PATH_NPY;
    else if (str_ends_with_nocase(path, ".jpg") || str_ends_with_nocase(path, ".jpeg"))
        *ret_kind = PATH_JPEG;
    else {
        err_set(err, -ENOTSUP, "the file type is not supported");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "a shard, a " DATASET_NAME ", a " MANIFEST_NAME
                          ", safetensors, .npy, JPEG, PNG, WebP or PPM");
        return -ENOTSUP;
    }
    return 0;
}

int path_kind_detect(struct io *io, const char *path, enum path_kind *ret_kind, char *ret_path,
                     struct err *err)
{
    struct io_stat stat;
    if (strlen(path) >= IO_PATH_BYTES_MAX)
        return io_long_path_error("", path, err);
    int status = io->names->stat(io, path, &stat, err);
    snprintf(ret_path, IO_PATH_BYTES_MAX, "%s", path);
    if (status && url_list_is_pattern(path)) {
        *ret_kind = PATH_DATASET;
        return 0;
    }
    if (status)
        return status;
    if (stat.kind == IO_ENTRY_FOLDER && entry_exists(io, path, METRICS_NAME)) {
        *ret_kind = PATH_RUN;
        return io_join_path(path, METRICS_NAME, ret_path, err);
    }
    if (stat.kind == IO_ENTRY_FOLDER)
        return kind_of_folder(io, path, ret_kind, err);
    if (is_named(path, MANIFEST_NAME)) {
        io_parent_path(path, ret_path);
        *ret_kind = PATH_CHECKPOINT;
        return 0;
    }
    return kind_of_file(io, path, ret_kind, err);
}

int path_each_dataset(struct io *io, const char *folder,
                      int (*each)(void *context, const char *path), void *context, struct err *err)
{
    struct folder_scan scan = {.io = io, .folder = folder, .each = each, .context = context};
    return io->names->list(io, folder, scan_entry, &scan, err);
}
