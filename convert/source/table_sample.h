/*
 * table_sample — turns a row of a list into a sample, or only checks it.
 *
 * When a source is opened, each row is listed: everything is checked except the contents of files,
 * so that most errors appear before anything is written.
 */
#ifndef MILLRACE_CONVERT_SOURCE_TABLE_SAMPLE_H
#define MILLRACE_CONVERT_SOURCE_TABLE_SAMPLE_H

#include "convert/source/column_value.h"
#include "convert/source/table_list.h"

/* A file that a row names, when listed. */
struct row_file {
    uint64_t bytes, identity_hash;
};

/* What listing finds out about a row. */
struct row_listing {
    char key[SHARD_KEY_BYTES_MAX];          /* "": the row's number */
    char class_name[COLUMN_TEXT_BYTES_MAX]; /* "": none */
    uint64_t columns_present;               /* bit i: column i has a value */
    uint32_t files_count;                   /* one for each file column */
    struct row_file files[SHARD_FIELDS_MAX];
    uint64_t path_hashes[SHARD_FIELDS_MAX]; /* of the paths below the list's folder */
};

/* Zero-initialize, and set the first members. Use from one thread only. */
struct table_sampler {
    const struct columns *columns;
    struct io *io;
    struct table_row row;
    struct source_sample listed; /* the fields of the last listed row; those of files are empty */
};

void table_sampler_deinit(struct table_sampler *sampler);

/* Lists a row. text: its bytes. -EBADMSG: the row is invalid; -ENOENT: a file is missing. Errors
 * name the row. Blocks. */
int table_sample_list(struct table_sampler *sampler, const struct table_list *list,
                      const struct table_row_at *at, const char *text, struct row_listing *ret_row,
                      struct err *err);
/* Appends the fields of a row. files: as listed. -ESTALE: a file has changed. Blocks. */
int table_sample_read(struct table_sampler *sampler, const struct table_list *list,
                      const struct table_row_at *at, const char *text, const struct row_file *files,
                      struct io_queue *queue, struct source_sample *sample, struct err *err);

/* Stores the key that a column's text gives: without the last extension of a path, and without
 * parts such as "..". -EBADMSG: it is empty, too long, or in a folder that readers skip. */
int table_make_key(const struct column *column, const char *text, char key[SHARD_KEY_BYTES_MAX],
                   struct err *err);
/* The same as source_end_field. -EBADMSG: the sample has the field already. */
int table_end_field(struct source_sample *sample, const struct column *column,
                    const char *extension, size_t start, const char *path, struct err *err);
/* jpg, png, webp or ppm by the content, else bin. */
const char *table_image_extension(const char *data, size_t bytes);

/* Hash of a path without empty and "." parts. */
uint64_t table_path_hash(const char *path);

#endif
