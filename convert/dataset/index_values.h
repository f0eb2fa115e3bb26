/*
 * index_values — the numbers of a sample that go into the index (convert/source/index_fields.h).
 */
#ifndef MILLRACE_CONVERT_DATASET_INDEX_VALUES_H
#define MILLRACE_CONVERT_DATASET_INDEX_VALUES_H

#include "convert/dataset/encoded_item.h"

struct index_values_reader; /* use from one thread only */
int index_values_reader_open(const struct index_fields *fields,
                             struct index_values_reader **ret_reader, struct err *err);
void index_values_reader_close(struct index_values_reader *reader); /* NULL is fine */

/* Sets item->numbers from the item's encoded fields: that of each of the fields, then the label.
 * NaN: the sample lacks the number. -EBADMSG names the sample's key: a value is not a number, or
 * not exactly a double. */
int index_values_read(struct index_values_reader *reader, struct encoded_item *item,
                      const char *key, struct err *err);

#endif
