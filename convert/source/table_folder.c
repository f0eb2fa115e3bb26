/*
 * table_folder — see table_folder.h.
 */
#include "convert/source/table_folder.h"

#include "convert/source/file_names.h"
#include "convert/source/table_sample.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const metadata_names[] = {"metadata.csv", "metadata.jsonl"};

bool name_is_metadata(const char *name)
{
    return strcmp(name, metadata_names[0]) == 0 || strcmp(name, metadata_names[1]) == 0;
}

int table_folder_find(struct io *io, const struct convert_options *options, const char *relative,
                      char path[IO_PATH_BYTES_MAX], struct err *err)
{
    char folder[IO_PATH_BYTES_MAX], other[IO_PATH_BYTES_MAX];
    struct io_stat info;
    int status = *relative ? io_join_path(options->source, relative, folder, err)
                           : io_join_path("", options->source, folder, err);
    if (!status)
        status = io_join_path(folder, metadata_names[0], path, err);
    if (!status)
        status = io_join_path(folder, metadata_names[1], other, err);
    if (status)
        return status;
    bool has_csv = io->names->stat(io, path, &info, NULL) == 0,
         has_jsonl = io->names->stat(io, other, &info, NULL) == 0;
    if (has_csv != has_jsonl) {
        if (has_jsonl)
            strcpy(path, other);
        return 0;
    }
    status = has_csv ? -EINVAL : -ENOENT;
    err_set(err, status,
            has_csv ? "the folder has both metadata.csv and metadata.jsonl"
                    : "the folder has no metadata.csv or metadata.jsonl");
    err_at(err, folder, ERR_NO_OFFSET);
    err_advise(err, has_csv ? "remove one of them"
                            : "all split folders need one, or none of them has one");
    return status;
}

struct folder_walk {
    struct io *io;
    struct source *source;
    const char *root; /* of the metadata, below the source */
    const uint64_t *path_hashes;
    size_t hashes_count;
    uint64_t unlisted_count;
    char unlisted_path[IO_PATH_BYTES_MAX]; /* the first one */
    struct err *err;
};

struct walked_folder {
    struct folder_walk *walk;
    const char *relative; /* below the root */
    struct str folders;   /* names, each with its NUL */
};

static int compare_hashes(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static int visit_entry(void *context, const struct io_entry *entry)
{
    struct walked_folder *folder = context;
    struct folder_walk *walk = folder->walk;
    const struct convert_options *options = walk->source->options;
    char relative[IO_PATH_BYTES_MAX], below_source[IO_PATH_BYTES_MAX];
    int status = io_join_path(folder->relative, entry->name, relative, walk->err);
    if (!status)
        status = io_join_path(walk->root, relative, below_source, walk->err);
    if (status)
        return status;
    if (name_is_ignored(options, below_source)) {
        walk->source->ignored_count++;
        return 0;
    }
    uint64_t hash = table_path_hash(relative);
    if (entry->kind != IO_ENTRY_FOLDER &&
        bsearch(&hash, walk->path_hashes, walk->hashes_count, sizeof hash, compare_hashes))
        return 0;
    if (name_is_hidden(entry->name)) {
        walk->source->hidden_count++;
        return 0;
    }
    if (entry->kind == IO_ENTRY_FOLDER) {
        str_add(&folder->folders, entry->name, strlen(entry->name) + 1);
        return str_status(&folder->folders)
                   ? err_set(walk->err, -ENOMEM, "out of memory for folders' names")
                   : 0;
    }
    bool is_document =
        name_is_readme(entry->name, false) || (!*folder->relative && name_is_metadata(entry->name));
    if (!is_document && walk->unlisted_count++ == 0)
        strcpy(walk->unlisted_path, below_source);
    return 0;
}

static int walk_folder(struct folder_walk *walk, const char *relative, unsigned depth)
{
    char path[IO_PATH_BYTES_MAX], child[IO_PATH_BYTES_MAX];
    struct walked_folder folder = {.walk = walk, .relative = relative};
    if (depth > FILE_LIST_DEPTH_MAX) {
        err_set(walk->err, -ELOOP, "folders are nested too deeply");
        err_at(walk->err, relative, ERR_NO_OFFSET);
        err_expected(walk->err, "at most %d levels", FILE_LIST_DEPTH_MAX);
        return -ELOOP;
    }
    int status = io_join_path(walk->root, relative, child, walk->err);
    if (!status)
        status = *child ? io_join_path(walk->source->options->source, child, path, walk->err)
                        : io_join_path("", walk->source->options->source, path, walk->err);
    if (!status)
        status = walk->io->names->list(walk->io, path, visit_entry, &folder, walk->err);
    for (size_t at = 0; at < folder.folders.bytes && !status;
         at += strlen(folder.folders.data + at) + 1) {
        status = io_join_path(relative, folder.folders.data + at, child, walk->err);
        if (!status)
            status = walk_folder(walk, child, depth + 1);
    }
    str_deinit(&folder.folders);
    return status;
}

int table_folder_check(struct io *io, struct source *source, const char *relative,
                       uint64_t *path_hashes, size_t count, struct err *err)
{
    struct folder_walk *walk = calloc(1, sizeof *walk);
    if (!walk)
        return err_set(err, -ENOMEM, "out of memory for a folder");
    if (count > 0)
        qsort(path_hashes, count, sizeof *path_hashes, compare_hashes);
    *walk = (struct folder_walk){.io = io,
                                 .source = source,
                                 .root = relative,
                                 .path_hashes = path_hashes,
                                 .hashes_count = count,
                                 .err = err};
    int status = walk_folder(walk, "", 0);
    if (!status && walk->unlisted_count > 0) {
        status = err_set(err, -ENOTSUP, "files have no row in the metadata");
        err_at(err, source->options->source, ERR_NO_OFFSET);
        err_expected(err, "each file in metadata.csv or metadata.jsonl");
        err_found(err, "%" PRIu64 " others; the first: %.150s", walk->unlisted_count,
                  walk->unlisted_path);
        err_advise(err, "add rows for them, or skip them with --ignore GLOB");
    }
    free(walk);
    return status;
}
