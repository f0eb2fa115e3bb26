/*
 * source_folder — see source.h: files below a folder. Grouping them is source_group.c.
 *
 * Left out, and said so once a reason: hidden files (silently), files without an extension, names that readers of shards skip,
 * and files directly in the root beside class folders.
 */
#include "convert/source.h"

#include "base/utf8.h"
#include "io/whole.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum left_out {
    LEFT_NO_EXTENSION,
    LEFT_READERS_SKIP,
    LEFT_BESIDE_CLASSES,
    LEFT_NOT_TEXT,
    LEFT_SPECIAL,
    LEFT_COUNT
};

/* The walk's own state. */
struct listing {
    struct io *io;
    struct source *source;
    struct err *err;
    struct str files; /* struct source_file */
    uint32_t class_number;
    uint64_t left_out[LEFT_COUNT];
    char left_out_name[LEFT_COUNT][IO_PATH_BYTES_MAX]; /* the first of each */
};

/* One folder's entries on their way. */
struct folder {
    struct listing *listing;
    const char *relative; /* of the folder, "" for the root */
    unsigned depth;
    struct str folders; /* names below it, each with its NUL */
};

bool source_ends_with(const char *name, const char *end)
{
    size_t bytes = strlen(name), end_bytes = strlen(end);
    return bytes >= end_bytes && strcasecmp(name + bytes - end_bytes, end) == 0;
}

bool source_is_container(const char *name)
{
    static const char *const ends[] = {".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.zst", ".tar.xz",
                                       ".zip", ".7z",  ".mds",    ".beton",   ".rar"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (source_ends_with(name, ends[i]))
            return true;
    return strcmp(name, "dataset.json") == 0;
}

int source_refuse_kind(const char *path, const char *found, struct err *err)
{
    err_set(err, -ENOTSUP, "this kind of source is not accepted");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "a folder of class folders, a folder of files, a .txt file or a folder of them");
    err_found(err, "%s", found);
    err_advise(err, "unpack it into a folder first");
    return -ENOTSUP;
}

/* UTF-8 without control characters (RFC 3629): what every reader of tars agrees about. */
static bool is_plain_text(const char *name)
{
    const unsigned char *at = (const unsigned char *)name;
    while (*at) {
        size_t bytes = utf8_sequence_bytes(at, strnlen((const char *)at, 4));
        if (bytes == 0 || *at < 0x20 || *at == 0x7f)
            return false;
        at += bytes;
    }
    return true;
}

/* Readers of WebDataset shards skip what matches __[^/]*__($|/); for a folder's name or a whole file's name. */
static bool readers_skip(const char *name)
{
    size_t bytes = strlen(name);
    return bytes >= 4 && strcmp(name + bytes - 2, "__") == 0 && strstr(name, "__") <= name + bytes - 4;
}

static void leave_out(struct listing *listing, enum left_out why, const char *relative)
{
    if (listing->left_out[why]++ == 0)
        snprintf(listing->left_out_name[why], sizeof listing->left_out_name[why], "%s", relative);
}

static bool is_left_out(struct listing *listing, unsigned depth, const char *name, const char *relative)
{
    const char *dot = strrchr(name, '.');
    if (listing->source->kind == SOURCE_TEXT) {
        if (source_ends_with(name, ".txt"))
            return false;
        leave_out(listing, LEFT_NOT_TEXT, relative);
    } else if (listing->source->kind == SOURCE_CLASSES && depth == 0) {
        leave_out(listing, LEFT_BESIDE_CLASSES, relative);
    } else if (!dot || !dot[1]) {
        leave_out(listing, LEFT_NO_EXTENSION, relative);
    } else if (readers_skip(name)) {
        leave_out(listing, LEFT_READERS_SKIP, relative);
    } else {
        return false;
    }
    return true;
}

static int add_file(struct listing *listing, const char *relative)
{
    struct source *source = listing->source;
    struct io_stat info;
    char path[IO_PATH_BYTES_MAX];
    int status = io_join_path(source->root, relative, path, listing->err);
    if (!status)
        status = listing->io->ops->stat(listing->io, path, &info, listing->err);
    if (status)
        return status;
    const char *slash = strrchr(relative, '/'), *base = slash ? slash + 1 : relative;
    struct source_file file = {
        .name_at = source->names.bytes,
        .bytes = info.size_bytes,
        .version = info.version,
        .class_number = listing->class_number,
        .base_at = (uint16_t)(base - relative),
        .dot_at = (uint16_t)(strrchr(base, '.') - relative),
    };
    str_add(&source->names, relative, strlen(relative) + 1);
    str_add(&listing->files, &file, sizeof file);
    source->bytes += info.size_bytes;
    if (str_status(&source->names) || str_status(&listing->files))
        return err_set(listing->err, -ENOMEM, "out of memory for a list of files");
    return 0;
}

static int refuse_name(struct listing *listing, const char *relative)
{
    err_set(listing->err, -EILSEQ, "name of a file is not plain UTF-8");
    err_at(listing->err, relative, ERR_NO_OFFSET);
    err_expected(listing->err, "UTF-8 without control characters");
    err_advise(listing->err, "rename it: readers of tars would not agree about it");
    return -EILSEQ;
}

static int visit(void *context, const struct io_entry *entry)
{
    struct folder *folder = context;
    struct listing *listing = folder->listing;
    char relative[IO_PATH_BYTES_MAX];
    if (entry->name[0] == '.')
        return 0;
    int status = io_join_path(folder->relative, entry->name, relative, listing->err);
    if (status)
        return status;
    if (!is_plain_text(entry->name))
        return refuse_name(listing, relative);
    if (entry->kind == IO_ENTRY_FOLDER) {
        if (readers_skip(entry->name))
            leave_out(listing, LEFT_READERS_SKIP, relative);
        else
            str_add(&folder->folders, entry->name, strlen(entry->name) + 1);
        return str_status(&folder->folders)
                   ? err_set(listing->err, -ENOMEM, "out of memory for folders' names")
                   : 0;
    }
    if (entry->kind != IO_ENTRY_FILE) {
        leave_out(listing, LEFT_SPECIAL, relative);
        return 0;
    }
    if (is_left_out(listing, folder->depth, entry->name, relative))
        return 0;
    if (listing->source->kind != SOURCE_TEXT && source_is_container(entry->name))
        return source_refuse_kind(relative, entry->name, listing->err);
    return add_file(listing, relative);
}

static int add_class(struct listing *listing, const char *name)
{
    struct source *source = listing->source;
    if (source->classes_count == SOURCE_CLASSES_MAX)
        return err_set(listing->err, -E2BIG, "more than %d class folders", SOURCE_CLASSES_MAX);
    if ((source->classes_count & (source->classes_count - 1)) == 0) { /* grow at powers of two */
        size_t room = source->classes_count ? 2 * source->classes_count : 1;
        char **grown = realloc(source->classes, room * sizeof *grown);
        if (!grown)
            return err_set(listing->err, -ENOMEM, "out of memory for class names");
        source->classes = grown;
    }
    char *copy = strdup(name);
    if (!copy)
        return err_set(listing->err, -ENOMEM, "out of memory for class names");
    listing->class_number = (uint32_t)source->classes_count;
    source->classes[source->classes_count++] = copy;
    return 0;
}

static int list_folder(struct listing *listing, const char *relative, unsigned depth)
{
    char path[IO_PATH_BYTES_MAX], below[IO_PATH_BYTES_MAX];
    struct folder folder = {.listing = listing, .relative = relative, .depth = depth};
    if (depth > SOURCE_DEPTH_MAX) {
        err_set(listing->err, -ELOOP, "folders are nested too deeply");
        err_at(listing->err, relative, ERR_NO_OFFSET);
        err_expected(listing->err, "at most %d levels", SOURCE_DEPTH_MAX);
        return -ELOOP;
    }
    int status = *relative ? io_join_path(listing->source->root, relative, path, listing->err)
                           : io_join_path("", listing->source->root, path, listing->err);
    if (!status)
        status = listing->io->ops->list(listing->io, path, visit, &folder, listing->err);
    for (size_t at = 0; at < folder.folders.bytes && !status; at += strlen(folder.folders.data + at) + 1) {
        const char *name = folder.folders.data + at;
        status = io_join_path(relative, name, below, listing->err);
        if (!status && depth == 0 && listing->source->kind == SOURCE_CLASSES)
            status = add_class(listing, name);
        if (!status)
            status = list_folder(listing, below, depth + 1);
    }
    str_deinit(&folder.folders);
    return status;
}

static void log_left_out(const struct listing *listing)
{
    static const char *const why[LEFT_COUNT] = {
        [LEFT_NO_EXTENSION] = "without an extension",
        [LEFT_READERS_SKIP] = "whose names, __so__, readers of shards skip",
        [LEFT_BESIDE_CLASSES] = "beside the class folders",
        [LEFT_NOT_TEXT] = "other than .txt",
        [LEFT_SPECIAL] = "that are no regular files",
    };
    for (int i = 0; i < LEFT_COUNT; i++)
        if (listing->left_out[i] > 0)
            log_line(listing->source->options->log, LOG_WARN,
                     "left out %" PRIu64 " files or folders %s; the first: %s", listing->left_out[i], why[i],
                     listing->left_out_name[i]);
}

/* Text in byte order of names, whatever the folders. */
static int compare_names(const void *a, const void *b, void *context)
{
    const struct source_file *left = a, *right = b;
    const struct source *source = context;
    return strcmp(source->names.data + left->name_at, source->names.data + right->name_at);
}

int source_list_files(struct io *io, struct source *source, struct err *err)
{
    struct listing *listing = calloc(1, sizeof *listing);
    if (!listing)
        return err_set(err, -ENOMEM, "out of memory for a list of files");
    *listing = (struct listing){.io = io, .source = source, .err = err};
    const char *path = source->options->source;
    struct io_stat info;
    int status = io->ops->stat(io, path, &info, err);
    if (!status && info.kind == IO_ENTRY_FILE) {
        const char *slash = strrchr(path, '/');
        io_parent_path(path, source->root);
        status = add_file(listing, slash ? slash + 1 : path);
    } else if (!status) {
        status = io_join_path("", path, source->root, err);
        if (!status)
            status = list_folder(listing, "", 0);
    }
    if (!status)
        log_left_out(listing);
    source->files = (struct source_file *)(void *)listing->files.data;
    source->files_count = listing->files.bytes / sizeof *source->files;
    if (!status && source->files_count > 0)
        qsort_r(source->files, source->files_count, sizeof *source->files, compare_names, source);
    free(listing);
    return status;
}
