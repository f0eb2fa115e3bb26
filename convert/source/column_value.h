/*
 * column_value — turns the value of a column into the bytes of a field.
 */
#ifndef MILLRACE_CONVERT_SOURCE_COLUMN_VALUE_H
#define MILLRACE_CONVERT_SOURCE_COLUMN_VALUE_H

#include "convert/source/columns.h"

/* Appends a value of any kind except files, classes and keys. *ret_is_absent: the row has no such
 * value (null, absent, or an empty cell for a number or a truth value); nothing is appended.
 * -EBADMSG: the value has another type; no location. */
int column_store_value(const struct columns *columns, const struct column *column,
                       struct table_row *row, struct str *out, bool *ret_is_absent,
                       struct err *err);

/* Whether the row has columns that are not mapped. -ENOMEM. */
int column_find_others(const struct columns *columns, const struct table_row *row,
                       bool *ret_has_others, struct err *err);

enum { COLUMN_TEXT_BYTES_MAX = IO_PATH_BYTES_MAX };
/* Stores the path, class name or key that a row has in a column, NUL-terminated. A JSON integer
 * counts as its digits, except as a path. -EBADMSG: it is absent, empty, of another type, too long
 * or has control characters. */
int column_text(const struct column *column, struct table_row *row,
                char text[COLUMN_TEXT_BYTES_MAX], struct err *err);

#endif
