/*
 * table_listing — lists the rows of the lists of a source, on several threads.
 *
 * Memory per row: 16 bytes. Keys from a column add their bytes and up to 32, a class 4, a file 16.
 */
#ifndef MILLRACE_CONVERT_SOURCE_TABLE_LISTING_H
#define MILLRACE_CONVERT_SOURCE_TABLE_LISTING_H

#include "base/name_set.h"
#include "convert/source/table_sample.h"

struct listed_row {
    uint64_t offset;
    uint32_t line;
    uint32_t bytes : 31; /* at most TABLE_ROW_BYTES_MAX */
    uint32_t is_bad : 1; /* invalid, but options->skip_errors */
};

/* The rows of one list. Bad rows have files, classes and keys without meaning. */
struct listed_rows {
    struct table_list list;
    uint64_t first_row;   /* among those of all lists */
    struct str rows;      /* struct listed_row */
    struct name_set keys; /* of each row; empty: the row's number is the key */
};

/* Zero-initialize. Immutable once listed; usable from any thread. */
struct table_listing {
    struct columns columns;
    uint32_t files_per_row;
    struct listed_rows *lists; /* one per split folder, or one */
    uint32_t lists_count;
    struct str files;            /* struct row_file, files_per_row for each row of all lists */
    struct str classes;          /* uint32_t for each row of all lists; empty without classes */
    struct name_set class_names; /* classes number these */
    bool keeps_paths;            /* set by the caller */
    struct str path_hashes;      /* with keeps_paths: uint64_t, like files; of the last list */
};

void table_listing_deinit(struct table_listing *listing);

/* Lists one list after the previous ones. The first one chooses the columns by its first row unless
 * options or has_file_names do; logs them. Updates the hash with the list's content and the
 * files' sizes. Errors name the row; -EEXIST names two rows with the same key. */
int table_listing_add(struct table_listing *listing, struct io *io,
                      const struct convert_options *options, struct listed_rows *rows,
                      bool has_file_names, struct hash_stream *hash, uint64_t *bytes,
                      struct err *err);

static inline uint64_t listed_rows_count(const struct listed_rows *rows)
{
    return rows->rows.bytes / sizeof(struct listed_row);
}

#endif
