/*
 * array_table — a source whose items are rows of arrays: item i has row i of each column. Sources
 * for formats with rows of a fixed size find the columns; this does the rest.
 *
 *     array_table_begin(source, &table, err);
 *     array_table_add_file(table, io, path, &file, err);
 *     array_table_add_column(table, "image", &type, path, &column, err);
 *     array_table_add_part(table, &part, err);
 *     array_table_finish(io, source, &names, err);
 *
 * Memory per row: 4 bytes for the class. Numbers of labels are read when the source is opened,
 * everything else when its row is converted.
 */
#ifndef MILLRACE_CONVERT_SOURCE_ARRAY_TABLE_H
#define MILLRACE_CONVERT_SOURCE_ARRAY_TABLE_H

#include "convert/source/array_value.h"
#include "convert/source/columns.h"
#include "convert/source/file_list.h"

enum {
    ARRAY_COLUMNS_MAX = SHARD_FIELDS_MAX - 1, /* one field may be the class */
    ARRAY_PARTS_MAX = 64,
};

enum array_form {
    ARRAY_NUMBERS,
    ARRAY_PICTURE, /* a JPEG, or pixels */
    ARRAY_BYTES,
    ARRAY_JSON_TEXT, /* UTF-8, may end with a NUL */
};

enum array_use {
    ARRAY_LEFT_OUT,
    ARRAY_CLASS,
    ARRAY_IMAGE,  /* a PNG; a picture may also be a JPEG */
    ARRAY_NPY,    /* a NumPy file */
    ARRAY_FILE,   /* bytes, as they are */
    ARRAY_JSON,   /* a field of its own */
    ARRAY_MEMBER, /* a member of the JSON object in field rest */
};

struct array_column {
    char name[COLUMN_NAME_BYTES_MAX];
    enum array_form form;
    struct array_type type; /* of numbers: of a row */
    uint64_t row_bytes;     /* in its place */
    bool is_elsewhere;      /* a row states where its value is: see find_value */
    enum array_use use;
    struct array_image image; /* of ARRAY_IMAGE */
    /* Of all but classes and members. Of pictures: "", or a prefix that ends with a dot. */
    char field[SHARD_EXTENSION_BYTES_MAX];
};

/* Where a value is in the file of its row. */
struct array_location {
    uint64_t offset, bytes;
    bool is_jpeg; /* a picture; otherwise it is an image of this size: */
    struct array_image image;
};

/* Row i of a part lies at offset + i * stride_bytes. Zeros: the part lacks the column. */
struct array_place {
    uint32_t file;
    uint64_t offset, stride_bytes;
};

/* Consecutive rows of a split. */
struct array_part {
    uint32_t split;
    uint64_t rows;
    struct array_place places[ARRAY_COLUMNS_MAX]; /* of each column */
    uint64_t first_item, first_row; /* set by array_table_add_part; first_row: in its split */
};

struct array_file {
    char path[IO_PATH_BYTES_MAX];
    struct listed_file file;
};

/* Immutable once open; usable from any thread. */
struct array_table {
    struct array_column columns[ARRAY_COLUMNS_MAX];
    uint32_t columns_count;
    struct array_part *parts; /* ARRAY_PARTS_MAX */
    uint32_t parts_count;
    struct str files; /* struct array_file */
    char rest[SHARD_EXTENSION_BYTES_MAX];
    /* For columns that are elsewhere: parses a row of an item. -EBADMSG without location: it is
     * damaged. Called from any thread. context: borrowed. */
    int (*find_value)(const void *context, uint32_t column, const uint8_t *row,
                      struct array_location *ret_location, struct err *err);
    const void *context;
    uint32_t *bytes;     /* of each item's values elsewhere; NULL: none */
    struct str left_out; /* names of columns that were not added: "a, b" */
    uint32_t *classes;   /* of each item; NULL: none. Owned, as is bytes. */
};

static inline const struct array_file *array_table_file(const struct array_table *table,
                                                        uint32_t file)
{
    return (const struct array_file *)(const void *)table->files.data + file;
}

/* Sets source->state. */
int array_table_begin(struct source *source, struct array_table **ret_table, struct err *err);
/* Adds a file as it is now. */
int array_table_add_file(struct array_table *table, struct io *io, const char *path,
                         uint32_t *ret_file, struct err *err);
/* Adds a column, or finds one of an earlier part. type: of a row. path: for messages. -EINVAL: the
 * types differ; -EFBIG: a row is too large; -E2BIG: too many columns. */
int array_table_add_column(struct array_table *table, const char *name,
                           const struct array_type *type, const char *path, uint32_t *ret_column,
                           struct err *err);
/* Names a column that exists but is not added, for messages. */
void array_table_leave_out(struct array_table *table, const char *name);
int array_table_add_part(struct array_table *table, const struct array_part *part, struct err *err);

/* Names of classes. Zeros: their numbers. */
struct array_class_names {
    const char *column;       /* the names are those of this column's numbers */
    const char *const *names; /* NULL: the numbers */
    uint64_t count;           /* 0: up to the largest number that occurs */
};
/* Chooses the fields and logs them, reads the classes, and sets the fields of source. names: lists
 * by column, ended by one without a column. -EBADMSG names a label that is not a class number.
 * -EINVAL: a part lacks a column. */
int array_table_finish(struct io *io, struct source *source, const struct array_class_names *names,
                       struct err *err);

/* Hooks of struct source_ops. */
void array_table_close(struct source *source);
void array_table_describe(const struct source *source, uint64_t number, struct source_item *item);
int array_table_reader_open(struct source_reader *reader, struct err *err);
void array_table_reader_close(struct source_reader *reader);
int array_table_read(struct source_reader *reader, const struct source_item *item,
                     struct source_sample *sample, struct err *err);

/* Chooses how columns are stored, by the mappings or else by names and types (array_columns.c).
 * -EINVAL: a mapping does not fit its column. */
int array_columns_choose(struct array_table *table, const struct columns *mappings,
                         const char *path, struct err *err);
/* Appends "image -> png, label -> class, others -> json: id". */
void array_columns_describe(const struct array_table *table, struct str *out);

#endif
