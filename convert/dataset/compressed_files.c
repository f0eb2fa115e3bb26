/*
 * compressed_files — see compressed_files.h.
 */
#include "convert/dataset/compressed_files.h"

#include "base/bytes.h"
#include "base/str.h"
#include "convert/archive/archive_stream.h"
#include "convert/record/tfrecord.h"
#include "convert/source/archive_paths.h"
#include "convert/source/file_list.h"
#include "convert/source/file_names.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct search {
    struct io *io;
    const struct convert_options *options;
    struct str found; /* struct compressed_file */
    struct err *err;
};

struct searched_folder {
    struct search *search;
    const char *relative;
    struct str names, folders; /* of files that may be compressed, of folders; each with its NUL */
};

/* ---- Names. ---- */

/* Returns the length of a name without the ending of a compressed file; 0: it has none. */
static size_t stem_bytes(const char *name)
{
    static const char *const ends[] = {".gz", ".bz2", ".xz", ".zst", ".zstd", ".lz4"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (str_ends_with_nocase(name, ends[i]))
            return strlen(name) - strlen(ends[i]);
    return 0;
}

/* Whether a file with this name may be compressed: it is a part of a source. */
static bool is_stem(const char *name)
{
    static const char *const ends[] = {".txt", ".json", ".jsonl", ".ndjson",
                                       ".csv", ".tsv",  ".mds",   "-ubyte"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (str_ends_with_nocase(name, ends[i]))
            return true;
    return name_has_tfrecord(name);
}

static bool has_compressed_name(const char *name, char stem[IO_PATH_BYTES_MAX])
{
    size_t bytes = stem_bytes(name);
    if (bytes == 0 || bytes >= IO_PATH_BYTES_MAX)
        return false;
    memcpy(stem, name, bytes);
    stem[bytes] = '\0';
    return is_stem(stem);
}

/* Whether the content of a file in a folder may be compressed, by its name. */
static bool may_be_compressed(const char *name)
{
    char stem[IO_PATH_BYTES_MAX];
    return has_compressed_name(name, stem) || name_is_tfrecord(name) || name_is_litdata(name);
}

/* ---- Contents. ---- */

/* TFRecord is written with zlib too; an uncompressed file begins with the length of a record, which
 * may be anything. */
static enum compression tfrecord_compression(const char *head, size_t bytes)
{
    const uint8_t *data = (const uint8_t *)head;
    if (bytes < TFRECORD_HEADER_BYTES || tfrecord_is_header(data))
        return COMPRESSION_NONE;
    return data[0] == 0x78 && (data[0] << 8 | data[1]) % 31 == 0 ? COMPRESSION_ZLIB
                                                                 : compression_of(head, bytes);
}

/* The first member of an .npz file is compressed: numpy.savez_compressed wrote it. */
static bool is_compressed_npz(const char *name, const char *head, size_t bytes)
{
    return str_ends_with_nocase(name, ".npz") && bytes >= 10 && memcmp(head, "PK\3\4", 4) == 0 &&
           bytes_get_u16((const uint8_t *)head + 8) != 0;
}

static int read_compression(const struct search *search, const char *path, const char *name,
                            struct compressed_file *file)
{
    struct io_head head;
    int status = io_read_head(search->io, path, TFRECORD_HEADER_BYTES, &head, search->err);
    if (status)
        return status;
    file->bytes = head.file_bytes;
    file->compression = name_is_tfrecord(name) ? tfrecord_compression(head.data, head.bytes)
                        : is_compressed_npz(name, head.data, head.bytes)
                            ? COMPRESSION_ZIP
                            : compression_of(head.data, head.bytes);
    free(head.data);
    return 0;
}

static bool is_tar(struct io *io, const char *path)
{
    struct archive_stream *stream = NULL;
    struct archive_member member;
    bool has_members = archive_stream_open(io, path, &stream, NULL) == 0 &&
                       archive_stream_next(stream, &member, NULL) >= 0;
    archive_stream_close(stream);
    return has_members;
}

/* ---- The search. ---- */

static int add(struct search *search, const char *source, const char *path,
               struct compressed_file *file)
{
    file->source = strdup(source);
    file->path = strdup(path);
    str_add(&search->found, file, sizeof *file);
    return file->source && file->path && !str_status(&search->found)
               ? 0
               : err_set(search->err, -ENOMEM, "out of memory for a list of files");
}

static int reject_uncompressed(const struct search *search, const char *path)
{
    err_set(search->err, -EBADMSG, "the file is not compressed, in spite of its name");
    err_at(search->err, path, 0);
    err_expected(search->err, "gzip, bzip2, xz, zstd or lz4");
    err_advise(search->err, "download it again, or rename it if its content is right");
    return -EBADMSG;
}

static int reject_both(const struct search *search, const char *path, const char *other)
{
    err_set(search->err, -EEXIST, "a file is there both compressed and not");
    err_at(search->err, path, ERR_NO_OFFSET);
    err_found(search->err, "%.200s too", other);
    err_advise(search->err, "leave out one of them, for example with --ignore '*%s'",
               path + stem_bytes(path));
    return -EEXIST;
}

/* MDS and torchvision's idx may have both. */
static int check_stem(const struct search *search, const char *path, const char *stem,
                      bool *ret_is_skipped)
{
    struct io_stat info;
    *ret_is_skipped = false;
    if (search->io->names->stat(search->io, stem, &info, NULL))
        return 0;
    *ret_is_skipped = name_is_mds(stem) || str_ends_with(stem, "-ubyte");
    return *ret_is_skipped ? 0 : reject_both(search, path, stem);
}

static int look_at_file(struct search *search, const char *folder, const char *name)
{
    char path[IO_PATH_BYTES_MAX], stem[IO_PATH_BYTES_MAX], stem_path[IO_PATH_BYTES_MAX];
    struct compressed_file file = {0};
    bool has_ending = has_compressed_name(name, stem), is_skipped = false;
    int status = io_join_path(folder, name, path, search->err);
    if (!status)
        status = io_join_path(folder, has_ending ? stem : name, stem_path, search->err);
    if (!status && has_ending)
        status = check_stem(search, path, stem_path, &is_skipped);
    if (!status && !is_skipped)
        status = read_compression(search, path, has_ending ? stem : name, &file);
    if (status || is_skipped || (!has_ending && file.compression == COMPRESSION_NONE))
        return status;
    return file.compression == COMPRESSION_NONE ? reject_uncompressed(search, path)
                                                : add(search, path, stem_path, &file);
}

static int add_entry(void *context, const struct io_entry *entry)
{
    struct searched_folder *folder = context;
    char relative[IO_PATH_BYTES_MAX];
    bool is_folder = entry->kind == IO_ENTRY_FOLDER;
    if ((!is_folder && (entry->kind != IO_ENTRY_FILE || !may_be_compressed(entry->name))) ||
        name_is_hidden(entry->name) ||
        io_join_path(folder->relative, entry->name, relative, NULL) ||
        name_is_ignored(folder->search->options, relative))
        return 0;
    str_add(is_folder ? &folder->folders : &folder->names, entry->name, strlen(entry->name) + 1);
    return 0;
}

static int search_folder(struct search *search, const char *relative, unsigned depth)
{
    struct searched_folder folder = {.search = search, .relative = relative};
    char path[IO_PATH_BYTES_MAX], child[IO_PATH_BYTES_MAX];
    const atomic_int *stop = search->options->stop;
    int status = *relative ? io_join_path(search->options->source, relative, path, search->err)
                           : io_join_path("", search->options->source, path, search->err);
    if (!status && stop && atomic_load(stop))
        status = err_set(search->err, -EINTR, "stopped while files were listed");
    if (!status)
        status = search->io->names->list(search->io, path, add_entry, &folder, search->err);
    if (!status && (str_status(&folder.names) || str_status(&folder.folders)))
        status = err_set(search->err, -ENOMEM, "out of memory for a list of files");
    for (size_t at = 0; at < folder.names.bytes && !status;
         at += strlen(folder.names.data + at) + 1)
        status = look_at_file(search, path, folder.names.data + at);
    for (size_t at = 0; at < folder.folders.bytes && !status && depth < FILE_LIST_DEPTH_MAX;
         at += strlen(folder.folders.data + at) + 1) {
        status = io_join_path(relative, folder.folders.data + at, child, search->err);
        if (!status)
            status = search_folder(search, child, depth + 1);
    }
    str_deinit(&folder.names);
    str_deinit(&folder.folders);
    return status;
}

static int look_at_source(struct search *search)
{
    const char *path = search->options->source, *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    struct compressed_file file = {0};
    char stem[IO_PATH_BYTES_MAX];
    int status = read_compression(search, path, name, &file);
    if (!status && file.compression == COMPRESSION_NONE && has_compressed_name(name, stem))
        status = reject_uncompressed(search, path);
    if (status || file.compression == COMPRESSION_NONE || name_is_archive(name) ||
        (file.compression != COMPRESSION_ZIP && is_tar(search->io, path)))
        return status;
    size_t bytes = stem_bytes(path);
    if (bytes == 0 || path[bytes - 1] == '/')
        return add(search, path, path, &file);
    memcpy(stem, path, bytes);
    stem[bytes] = '\0';
    return add(search, path, stem, &file);
}

/* The files of a pattern, which must match the names that they keep. */
static int look_at_pattern(struct search *search)
{
    struct url_list paths = {0};
    char stem[IO_PATH_BYTES_MAX];
    int status = archive_paths_list(search->io, search->options, NULL, &paths, NULL);
    for (size_t i = 0; i < paths.count && !status; i++) {
        const char *path = paths.urls[i], *slash = strrchr(path, '/');
        const char *name = slash ? slash + 1 : path;
        struct compressed_file file = {0};
        bool has_ending = has_compressed_name(name, stem);
        if (!name_is_tfrecord(has_ending ? stem : name))
            continue;
        status = read_compression(search, path, has_ending ? stem : name, &file);
        if (!status && file.compression != COMPRESSION_NONE)
            status = add(search, path, path, &file);
    }
    url_list_deinit(&paths);
    return status == -ENOENT ? 0 : status; /* the source names the missing file */
}

/* The next character of a path, in which repeated slashes count once. */
static unsigned char next_character(const char **at)
{
    while ((*at)[0] == '/' && (*at)[1] == '/')
        (*at)++;
    return (unsigned char)*(*at)++;
}

/* "./x" and "x" are equal. */
static int compare_paths(const char *a, const char *b)
{
    unsigned char left, right;
    while (strncmp(a, "./", 2) == 0)
        a += 2;
    while (strncmp(b, "./", 2) == 0)
        b += 2;
    do {
        left = next_character(&a);
        right = next_character(&b);
    } while (left && left == right);
    return left - right;
}

static int compare_files(const void *a, const void *b)
{
    const struct compressed_file *left = a, *right = b;
    return compare_paths(left->path, right->path);
}

int compressed_files_find(struct io *io, struct convert_options *options,
                          struct compressed_files *files, struct err *err)
{
    struct search search = {.io = io, .options = options, .err = err};
    struct io_stat info;
    int status = io->names->stat(io, options->source, &info, NULL);
    if (status)
        status = archive_paths_is_pattern(options->source) ? look_at_pattern(&search) : 0;
    else if (info.kind == IO_ENTRY_FILE)
        status = look_at_source(&search);
    else if (options->fields.count == 0) /* a field may have any ending */
        status = search_folder(&search, "", 0);
    files->items = (struct compressed_file *)(void *)search.found.data;
    files->count = search.found.bytes / sizeof *files->items;
    if (status || files->count == 0)
        return status;
    qsort(files->items, files->count, sizeof *files->items, compare_files);
    if (strcmp(files->items[0].source, options->source) == 0)
        options->source = files->items[0].path;
    return 0;
}

void compressed_files_deinit(struct compressed_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        free(files->items[i].path);
        free(files->items[i].source);
    }
    free(files->items);
    *files = (struct compressed_files){0};
}

const struct compressed_file *compressed_files_at(const struct compressed_files *files,
                                                  const char *path)
{
    const struct compressed_file wanted = {.path = (char *)(uintptr_t)path};
    return files->count ? bsearch(&wanted, files->items, files->count, sizeof wanted, compare_files)
                        : NULL;
}

const struct compressed_file *compressed_files_of(const struct compressed_files *files,
                                                  const char *source)
{
    char stem[IO_PATH_BYTES_MAX];
    size_t bytes = stem_bytes(source);
    if (bytes == 0 || bytes >= sizeof stem)
        return NULL;
    memcpy(stem, source, bytes);
    stem[bytes] = '\0';
    const struct compressed_file *file = compressed_files_at(files, stem);
    return file && compare_paths(file->source, source) == 0 ? file : NULL;
}

void compressed_files_name(const struct compressed_files *files, struct err *err)
{
    for (size_t i = 0; err && i < files->count; i++) {
        const struct compressed_file *file = &files->items[i];
        size_t bytes = strlen(file->path);
        char rest[32];
        if (strncmp(err->path, file->path, bytes) != 0 ||
            (err->path[bytes] && err->path[bytes] != ':') ||
            strlen(err->path + bytes) >= sizeof rest)
            continue;
        strcpy(rest, err->path + bytes); /* such as a line number */
        snprintf(err->path, sizeof err->path, "%s%s", file->source, rest);
        return;
    }
}
