/*
 * file_list — lists the files below a folder, for sources that consist of files.
 *
 * Hidden and ignored files are skipped and counted. Files that describe the data, and names that
 * shard readers skip, are skipped with a warning. Files that belong to no sample are counted by
 * type; after the listing, they fail the conversion. Memory: a path and 40 bytes per file.
 */
#ifndef MILLRACE_CONVERT_SOURCE_FILE_LIST_H
#define MILLRACE_CONVERT_SOURCE_FILE_LIST_H

#include "convert/source/source.h"

enum {
    FILE_LIST_DEPTH_MAX = 32, /* limit on nesting; stops symbolic-link loops */
    FILE_LIST_CLASSES_MAX = 1 << 20,
    UNMATCHED_TYPES_MAX = 64,
};

struct listed_file {
    uint64_t name_at;              /* offset in names */
    uint64_t bytes, identity_hash; /* when listed; identity_hash: of its io_identity */
    uint32_t class_number;
    uint16_t base_at, dot_at; /* offsets in the name: base name, dot of its extension */
};

/* Sets size and identity. */
void listed_file_set(struct listed_file *file, const struct io_stat *info);
/* -ESTALE: the open file has changed since it was listed. */
int listed_file_check(const struct listed_file *listed, struct io *io, const struct io_file *handle,
                      const char *path, struct err *err);
/* Appends the bytes [offset, offset + count) of a file to out. -ESTALE: the file has changed since
 * it was listed. Blocks. */
int listed_file_read(const struct listed_file *file, struct io *io, struct io_queue *queue,
                     const char *path, uint64_t offset, uint64_t count, struct str *out,
                     struct err *err);

struct unmatched_type {
    char type[SHARD_EXTENSION_BYTES_MAX + 16]; /* ".tif", or a problem */
    uint64_t count;
    char example[IO_PATH_BYTES_MAX];
};

/* Immutable once open; usable from any thread. */
struct file_list {
    /* Set by the caller. */
    bool has_classes; /* folders below the root or its splits are classes */
    bool is_tokens;   /* samples are .bin and .idx files with any name */
    bool is_text;     /* samples are .txt, .jsonl, .ndjson and .json files with any name */
    /* Set by file_list_open. */
    char root[IO_PATH_BYTES_MAX];
    struct str names;          /* consecutive, each with its NUL */
    struct listed_file *files; /* in byte order of names */
    uint64_t count;
    struct unmatched_type *unmatched;
    uint32_t unmatched_types_count;
    uint64_t unmatched_count; /* includes types beyond the maximum */
};

/* Lists source->options->source, and sets bytes, classes and counts of source. -ENOTSUP: some files
 * belong to no sample. Needs file_list_deinit even after a failure. */
int file_list_open(struct file_list *list, struct io *io, struct source *source, struct err *err);
void file_list_deinit(struct file_list *list);

/* Hashes names and sizes in their current order. Excludes times, so copies have the same hash.
 * -ENOMEM. */
int file_list_identify(const struct file_list *list, uint64_t *ret_identity, struct err *err);
int file_list_path(const struct file_list *list, uint64_t file, char *path, struct err *err);
/* Appends the file's bytes [offset, offset + count) to out. path: the file's path. -ESTALE: the
 * file has changed since it was listed. Blocks. */
int file_list_read(const struct file_list *list, struct io *io, struct io_queue *queue,
                   uint64_t file, const char *path, uint64_t offset, uint64_t count,
                   struct str *out, struct err *err);

static inline const char *file_list_name(const struct file_list *list, uint64_t file)
{
    return list->names.data + list->files[file].name_at;
}

/* Counts a file. -ENOMEM. */
int unmatched_add(struct file_list *list, const char *type, const char *relative, struct err *err);
/* -ENOTSUP with advice if any file was counted. */
int unmatched_reject(const struct file_list *list, const struct convert_options *options,
                     struct err *err);

#endif
