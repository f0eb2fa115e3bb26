/*
 * record_row — writes values of a record as a row of JSON (convert/source/table_row.h), so that the
 * code for lists maps them to fields.
 */
#ifndef MILLRACE_CONVERT_RECORD_RECORD_ROW_H
#define MILLRACE_CONVERT_RECORD_RECORD_ROW_H

#include "convert/record/record.h"
#include "convert/source/columns.h"

/* Appends an object of the values that the columns need, except files. A list is an array, or its
 * only element if a column stores one value; an empty one is then absent. Values that JSON cannot
 * store are -EBADMSG if a column stores them. */
int record_write_row(const struct record *record, const struct columns *columns, struct str *out,
                     struct err *err);

/* Whether strings are UTF-8 without NUL. */
bool record_is_text(const struct record *record, const struct record_value *value);

#endif
