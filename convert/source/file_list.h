/*
 * file_list — the files below a folder that belong to samples, for sources that are made of files.
 *
 * Skipped: hidden files and those that --ignore matches, which are counted; with a warning, files
 * that describe the data, and names that readers of shards skip. Files that belong to no sample are
 * counted by type and fail the conversion once all are listed. Memory: a path and 32 bytes per
 * file.
 */
#ifndef MILLRACE_CONVERT_SOURCE_FILE_LIST_H
#define MILLRACE_CONVERT_SOURCE_FILE_LIST_H

#include "convert/source/source.h"

enum {
    FILE_LIST_DEPTH_MAX = 32, /* nesting of folders; stops loops of symbolic links */
    FILE_LIST_CLASSES_MAX = 1 << 20,
    UNMATCHED_TYPES_MAX = 64,
};

struct listed_file {
    uint64_t name_at; /* offset in names */
    uint64_t bytes;   /* when listed */
    uint32_t class_number;
    uint16_t base_at, dot_at; /* offsets in the name: of the base name, of its last dot */
};

/* Files of one type that belong to no sample. */
struct unmatched_type {
    char type[SHARD_EXTENSION_BYTES_MAX + 16]; /* ".tif", or why the extension does not matter */
    uint64_t count;
    char example[IO_PATH_BYTES_MAX];
};

/* Immutable once open; any thread. */
struct file_list {
    /* Set by the caller. */
    bool has_classes; /* the folders below the root or its splits are classes */
    bool is_text;     /* only .txt files, with any names */
    /* Set by file_list_open. */
    char root[IO_PATH_BYTES_MAX]; /* the folder that names are relative to */
    struct str names;             /* NUL-terminated, consecutive */
    struct listed_file *files;    /* in byte order of names */
    uint64_t count;
    struct unmatched_type *unmatched;
    uint32_t unmatched_types;
    uint64_t unmatched_count; /* files of all types, including those that exceed the maximum */
};

/* Lists source->options->source and sets bytes, classes and the counts of source. -ENOTSUP: files
 * belong to no sample. After a failure, file_list_deinit is still needed. */
int file_list_open(struct file_list *list, struct io *io, struct source *source, struct err *err);
void file_list_deinit(struct file_list *list);

/* A hash of the names and sizes, in their current order. It excludes times, so that a copy of the
 * files has the same. -ENOMEM. */
int file_list_identify(const struct file_list *list, uint64_t *ret_identity, struct err *err);
int file_list_path(const struct file_list *list, uint64_t file, char *path, struct err *err);
/* Appends count bytes at offset of a file to out; path is its path. -ESTALE if the file has changed
 * since it was listed. Blocks. */
int file_list_read(const struct file_list *list, struct io *io, struct io_queue *queue,
                   uint64_t file, const char *path, uint64_t offset, uint64_t count,
                   struct str *out, struct err *err);

static inline const char *file_list_name(const struct file_list *list, uint64_t file)
{
    return list->names.data + list->files[file].name_at;
}

/* Counts a file that belongs to no sample. -ENOMEM. */
int unmatched_add(struct file_list *list, const char *type, const char *relative, struct err *err);
/* -ENOTSUP if there are any, with advice. */
int unmatched_reject(const struct file_list *list, const struct convert_options *options,
                     struct err *err);

#endif
