/*
 * table_row — one row of a list: JSON Lines, CSV or TSV.
 *
 *     table_row_parse(&row, text, bytes, TABLE_ROW_LAZY, err);
 *     if (table_row_find(&row, "caption", &value)) ...
 *
 * Errors have no location, except the offset within the row of invalid UTF-8 or JSON.
 */
#ifndef MILLRACE_CONVERT_SOURCE_TABLE_ROW_H
#define MILLRACE_CONVERT_SOURCE_TABLE_ROW_H

#include "base/json/jsonx.h"
#include "base/json/jsonx_scan.h"
#include "convert/source/csv.h"
#include "convert/source/source.h"

/* The format of a list. Immutable. */
struct table_format {
    char delimiter;               /* of CSV and TSV; 0: JSON Lines */
    const struct csv_row *header; /* CSV and TSV: the columns' names; NULL: this is the header */
};

/* A member of a row that is known to be valid: its spans in the text, parsed only when needed. */
struct table_member {
    struct jsonx_span key, value; /* the key's with its quotes */
    struct json_t *node;          /* owned; NULL: not parsed yet */
};

/* Zero-initialize, except for format. Owner thread. Borrows the text of the last row. */
struct table_row {
    const struct table_format *format;
    const char *text;
    size_t bytes;
    struct csv_row cells; /* CSV and TSV */
    struct json_t *root;  /* JSON Lines: an object; NULL: see members */
    struct str members;   /* JSON Lines: struct table_member, after table_row_scan */
    int status;           /* -ENOMEM: a lookup failed */
};

void table_row_deinit(struct table_row *row);
enum table_row_mode {
    TABLE_ROW_TREE,  /* parses all of it */
    TABLE_ROW_LAZY,  /* checks all of it, but may parse only the values that are looked up */
    TABLE_ROW_KNOWN, /* the same, without checks: the row was parsed before */
};

/* Replaces the row. -EBADMSG: not valid UTF-8, not a row of the format, or another number of cells
 * than the header. -ENOMEM. */
int table_row_parse(struct table_row *row, const char *text, size_t bytes, enum table_row_mode mode,
                    struct err *err);
/* JSON Lines: finds the members of a valid row, if that was not done yet. -ENOMEM. */
int table_row_scan(struct table_row *row, struct err *err);

static inline struct table_member *table_row_members(const struct table_row *row)
{
    return (struct table_member *)(void *)row->members.data;
}

static inline size_t table_row_members_count(const struct table_row *row)
{
    return row->members.bytes / sizeof(struct table_member);
}

/* A value of a row; borrows from it. */
struct table_value {
    struct json_t *node; /* JSON Lines; otherwise NULL */
    const char *text;    /* of a cell or a JSON string; otherwise NULL */
    size_t bytes;
};

/* Finds a column, or, in a row with a tree, the value at a JSON path. Returns false if it is absent
 * or null, or if row->status is set. */
bool table_row_find(struct table_row *row, const char *name, struct table_value *ret_value);

/* The same, for a value that should be a string. Its text may lack a NUL; a string may lack its
 * node. */
bool table_row_find_text(struct table_row *row, const char *name, struct table_value *ret_value);

/* Visits the columns: the cells of CSV; in JSON Lines, the members of a row with a tree, even if
 * they are null. A nonzero result of the callback ends the walk and is returned. */
int table_row_each(const struct table_row *row,
                   int (*visit)(void *context, const char *name, const struct table_value *value),
                   void *context);

#endif
