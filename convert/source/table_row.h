/*
 * table_row — one row of a list: JSON Lines, CSV or TSV.
 *
 *     table_row_parse(&row, text, bytes, err);
 *     if (table_row_find(&row, "caption", &value)) ...
 *
 * Errors have no location, except the offset within the row of invalid UTF-8 or JSON.
 */
#ifndef MILLRACE_CONVERT_SOURCE_TABLE_ROW_H
#define MILLRACE_CONVERT_SOURCE_TABLE_ROW_H

#include "base/json/jsonx.h"
#include "convert/source/csv.h"
#include "convert/source/source.h"

/* The format of a list. Immutable. */
struct table_format {
    char delimiter;               /* of CSV and TSV; 0: JSON Lines */
    const struct csv_row *header; /* CSV and TSV: the columns' names; NULL: this is the header */
};

/* Zero-initialize, except for format. Owner thread. Borrows the text of the last row. */
struct table_row {
    const struct table_format *format;
    const char *text;
    size_t bytes;
    struct csv_row cells; /* CSV and TSV */
    struct json_t *root;  /* JSON Lines: an object */
};

void table_row_deinit(struct table_row *row);
/* Replaces the row. -EBADMSG: not valid UTF-8, not a row of the format, or another number of cells
 * than the header. -ENOMEM. */
int table_row_parse(struct table_row *row, const char *text, size_t bytes, struct err *err);

/* A value of a row; borrows from it. */
struct table_value {
    struct json_t *node; /* JSON Lines; otherwise NULL */
    const char *text;    /* of a cell or a JSON string; otherwise NULL */
    size_t bytes;
};

/* Finds a column, or, in JSON Lines, the value at a JSON path. Returns false if it is absent or
 * null. */
bool table_row_find(const struct table_row *row, const char *name, struct table_value *ret_value);

/* Visits the columns: the cells of CSV, the members of JSON Lines, even if they are null. A nonzero
 * result of the callback ends the walk and is returned. */
int table_row_each(const struct table_row *row,
                   int (*visit)(void *context, const char *name, const struct table_value *value),
                   void *context);

#endif
