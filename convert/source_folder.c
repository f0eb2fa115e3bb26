/*
 * source_folder — see source.h: files below a folder, grouped into items by key.
 *
 * Left out, and said so once a reason: hidden files (silently), files without an extension, names that readers of shards skip,
 * and files directly in the root beside class folders.
 */
#include "convert/source.h"
#include "io/whole.h"

#include <ctype.h>
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
        unsigned char a = *at;
        size_t bytes = a < 0x80                ? 1
                       : a >= 0xc2 && a < 0xe0 ? 2
                       : a >= 0xe0 && a < 0xf0 ? 3
                       : a >= 0xf0 && a < 0xf5 ? 4
                                               : 0;
        if (bytes == 0 || a < 0x20 || a == 0x7f)
            return false;
        for (size_t i = 1; i < bytes; i++)
            if ((at[i] & 0xc0) != 0x80)
                return false;
        if ((a == 0xe0 && at[1] < 0xa0) || (a == 0xed && at[1] > 0x9f) || (a == 0xf0 && at[1] < 0x90) ||
            (a == 0xf4 && at[1] > 0x8f))
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

static void write_extension(const struct source *source, const struct source_file *file,
                            char extension[SHARD_EXTENSION_BYTES_MAX])
{
    const char *text = source->names.data + file->name_at + file->dot_at + 1;
    size_t i = 0;
    for (; text[i] && i + 1 < SHARD_EXTENSION_BYTES_MAX; i++)
        extension[i] = text[i] == ' ' ? '_' : (char)tolower((unsigned char)text[i]);
    extension[i] = '\0';
    if (strcmp(extension, "jpeg") == 0)
        strcpy(extension, "jpg");
}

void source_file_extension(const struct source *source, uint64_t file,
                           char extension[SHARD_EXTENSION_BYTES_MAX])
{
    write_extension(source, &source->files[file], extension);
}

/* The i-th byte of a file's key. */
static int key_byte(const struct source *source, const struct source_file *file, size_t i)
{
    if (i >= file->dot_at)
        return -1; /* a key sorts before those that it begins */
    unsigned char byte = (unsigned char)source->names.data[file->name_at + i];
    return i >= file->base_at && (byte == '.' || byte == ' ') ? '_' : byte;
}

static int compare_keys(const struct source *source, const struct source_file *left,
                        const struct source_file *right)
{
    for (size_t i = 0;; i++) {
        int a = key_byte(source, left, i), b = key_byte(source, right, i);
        if (a != b)
            return a < b ? -1 : 1;
        if (a < 0)
            return 0;
    }
}

static int compare_files(const void *a, const void *b, void *context)
{
    const struct source *source = context;
    const struct source_file *left = a, *right = b;
    char left_extension[SHARD_EXTENSION_BYTES_MAX], right_extension[SHARD_EXTENSION_BYTES_MAX];
    int order = compare_keys(source, left, right);
    if (order)
        return order;
    write_extension(source, left, left_extension);
    write_extension(source, right, right_extension);
    order = strcmp(left_extension, right_extension);
    return order ? order : compare_names(a, b, context);
}

static bool is_image(const char *extension)
{
    static const char *const images[] = {"jpg", "png",  "webp", "bmp", "gif",
                                         "tif", "tiff", "ppm",  "pgm", "jp2"};
    for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
        if (strcmp(extension, images[i]) == 0)
            return true;
    return false;
}

/* Two files of one key that can't be fields of one sample: the same extension, or below class folders two pictures, each of
 * which would be a sample of its own elsewhere. */
static int check_pair(const struct source *source, uint64_t earlier, uint64_t file, struct err *err)
{
    char before[SHARD_EXTENSION_BYTES_MAX], extension[SHARD_EXTENSION_BYTES_MAX];
    source_file_extension(source, earlier, before);
    source_file_extension(source, file, extension);
    bool pictures = source->kind == SOURCE_CLASSES && is_image(before) && is_image(extension);
    if (strcmp(before, extension) != 0 && !pictures)
        return 0;
    err_set(err, -EEXIST, "two files have one key: %s", source_file_name(source, earlier));
    err_at(err, source_file_name(source, file), ERR_NO_OFFSET);
    err_expected(err, "names that differ apart from their last extension, other dots and spaces being _");
    err_advise(err, "rename one of them");
    return -EEXIST;
}

static int check_extension(const struct source *source, uint64_t file, char seen[][SHARD_EXTENSION_BYTES_MAX],
                           uint32_t *seen_count, struct err *err)
{
    char extension[SHARD_EXTENSION_BYTES_MAX];
    const char *name = source_file_name(source, file);
    source_file_extension(source, file, extension);
    if (strlen(name) - source->files[file].dot_at > SHARD_EXTENSION_BYTES_MAX - 1 ||
        (source->kind == SOURCE_CLASSES && strcmp(extension, "cls") == 0)) {
        err_set(err, -EINVAL, "extension of a file can't be a field's name");
        err_at(err, name, ERR_NO_OFFSET);
        err_expected(err, "less than %d bytes, and not \"cls\" below class folders",
                     SHARD_EXTENSION_BYTES_MAX - 1);
        return -EINVAL;
    }
    for (uint32_t i = 0; i < *seen_count; i++)
        if (strcmp(seen[i], extension) == 0)
            return 0;
    if (*seen_count == SHARD_FIELDS_MAX - 1) {
        err_set(err, -E2BIG, "more than %d different extensions", SHARD_FIELDS_MAX - 1);
        err_at(err, name, ERR_NO_OFFSET);
        return -E2BIG;
    }
    strcpy(seen[(*seen_count)++], extension);
    return 0;
}

int source_group_files(struct source *source, struct err *err)
{
    char seen[SHARD_FIELDS_MAX][SHARD_EXTENSION_BYTES_MAX];
    uint32_t seen_count = 0;
    if (source->files_count == 0)
        return 0;
    qsort_r(source->files, source->files_count, sizeof *source->files, compare_files, source);
    source->first_files = calloc(source->files_count + 1, sizeof *source->first_files);
    if (!source->first_files)
        return err_set(err, -ENOMEM, "out of memory for a list of samples");
    for (uint64_t file = 0; file < source->files_count; file++) {
        int status = check_extension(source, file, seen, &seen_count, err);
        bool begins = file == 0 || compare_keys(source, &source->files[file - 1], &source->files[file]) != 0;
        if (begins)
            source->first_files[source->items++] = file;
        for (uint64_t earlier = source->first_files[source->items - 1]; earlier < file && !status; earlier++)
            status = check_pair(source, earlier, file, err);
        if (status)
            return status;
    }
    source->first_files[source->items] = source->files_count;
    return 0;
}
