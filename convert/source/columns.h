/*
 * columns — which columns of a list become which fields of its samples.
 *
 * Each mapping has the form NAME=FIELD[:KIND]:
 *
 *     image=jpg             a file; its path is relative to the list
 *     image=:file           a file, with its own extension
 *     mask=mask.:file       a file, as field mask.png if its own extension is png
 *     caption=txt           text
 *     score=score:float     a number, as JSON
 *     $.meta.width=width:int  of JSON Lines, by a JSON path (base/json/jsonx_path.h)
 *     label=:class          the class: field cls
 *     id=:key               the sample's key
 *     #=:key                the row's number as the sample's key
 *     *=json                all columns that are not mapped, as one JSON object
 */
#ifndef MILLRACE_CONVERT_SOURCE_COLUMNS_H
#define MILLRACE_CONVERT_SOURCE_COLUMNS_H

#include "base/hash.h"
#include "convert/source/table_row.h"

/* In the order of columns.c's table of names. */
enum column_kind {
    COLUMN_FILE,   /* a path; the field is the file's bytes */
    COLUMN_IMAGE,  /* the same; the file must be an image */
    COLUMN_TEXT,   /* UTF-8 */
    COLUMN_INT,    /* an int64, as JSON */
    COLUMN_FLOAT,  /* a finite number, as JSON */
    COLUMN_BOOL,   /* true or false, as JSON */
    COLUMN_JSON,   /* any JSON value */
    COLUMN_BASE64, /* bytes in base64 */
    COLUMN_CLASS,  /* a class name or number */
    COLUMN_KEY,
    COLUMN_KINDS_COUNT,
};

enum { COLUMN_NAME_BYTES_MAX = 512 };

struct column {
    char name[COLUMN_NAME_BYTES_MAX]; /* "*": all others; "#": the row's number */
    enum column_kind kind;
    /* Files: "" for the file's own extension; "mask." for that after a prefix. Empty for classes
     * and keys. */
    char field[SHARD_EXTENSION_BYTES_MAX];
};

/* Zero-initialize. */
struct columns {
    struct column items[SHARD_FIELDS_MAX];
    uint32_t count;
};

/* Parses mappings. -EINVAL: one of them has the wrong form, or two contradict each other. */
int columns_parse(const struct convert_string_list *mappings, struct columns *ret_columns,
                  struct err *err);

/* How columns_choose finds out whether a value is the path of a file. */
struct column_probe {
    bool (*is_file)(void *context, const char *path);
    void *context;
    bool has_file_names; /* as in Hugging Face's metadata: files are in file_name and *_file_name */
};

/* Chooses mappings by the names and values of a list's first row:
 * - the column that holds the path of a file becomes a file; with has_file_names, file_name and
 *   x_file_name (as field x.EXT)
 * - text or caption becomes txt; label, class or category the class, unless there are several
 * - all others become json.
 * -EINVAL with the options to type: there are several columns with files, or one with the name of
 * a file column that names no file. */
int columns_choose(const struct table_row *row, const struct column_probe *probe,
                   struct columns *ret_columns, struct err *err);

/* -EINVAL: no mapping can name this column, because "*", "#" and names that begin with $ have
 * another meaning in a mapping. */
int columns_check_name(const char *name, struct err *err);

/* Whether columns_choose takes a column with this name for the text or the class. */
bool column_name_is_text(const char *name);
bool column_name_is_class(const char *name);

/* Checks that a list with this first row has all columns. For JSON Lines, later rows may have
 * others: checks nothing. -EINVAL names a column that is missing. */
int columns_check(const struct columns *columns, const struct table_row *row, struct err *err);

/* Whether a column is mapped by name, or by a path that selects all of it. */
bool columns_have(const struct columns *columns, const char *name);
/* The first mapping with this kind, or NULL. */
const struct column *columns_find(const struct columns *columns, enum column_kind kind);
static inline bool column_is_file(const struct column *column)
{
    return column->kind == COLUMN_FILE || column->kind == COLUMN_IMAGE;
}

void columns_hash(const struct columns *columns, struct hash_stream *hash);

/* Appends "image -> jpg (file), caption -> txt (text), others -> json: width, height". row: the
 * first row, for the names of the others; those that are left out follow as "; left out: ...". */
void columns_describe(const struct columns *columns, const struct table_row *row, struct str *out);

#endif
