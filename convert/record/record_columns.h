/*
 * record_columns — which values of a record become which fields: the columns of
 * convert/source/columns.h, where the columns with files are those with bytes.
 */
#ifndef MILLRACE_CONVERT_RECORD_RECORD_COLUMNS_H
#define MILLRACE_CONVERT_RECORD_RECORD_COLUMNS_H

#include "convert/record/record.h"
#include "convert/source/columns.h"

/* Chooses mappings by the names and values of a record:
 * - the image becomes jpg, png or webp by its content
 * - other bytes become NAME.bin, arrays NAME.npy
 * - text or caption becomes txt; label, class, category or image/class/label the class, unless
 *   there are several
 * - all others become json.
 * -EINVAL with the options to type: there are several images. */
int record_columns_choose(const struct record *record, struct columns *ret_columns,
                          struct err *err);

/* The first mapping by name whose column the record lacks, or NULL. */
const struct column *record_columns_missing(const struct columns *columns,
                                            const struct record *record);

/* Appends the names of the record's values, separated by commas. */
void record_list_names(const struct record *record, struct str *out);
/* Appends the mappings as columns_describe does. */
int record_columns_describe(const struct columns *columns, const struct record *record,
                            struct str *out, struct err *err);

#endif
