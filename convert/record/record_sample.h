/*
 * record_sample — turns a record into the fields of a sample.
 */
#ifndef MILLRACE_CONVERT_RECORD_RECORD_SAMPLE_H
#define MILLRACE_CONVERT_RECORD_RECORD_SAMPLE_H

#include "convert/record/record.h"
#include "convert/source/table_sample.h"

/* Zero-initialize. Owner thread. */
struct record_sampler {
    struct table_row row;
    struct str text;
};

void record_sampler_deinit(struct record_sampler *sampler);

/* Appends the fields of a record, except keys and classes. name: of the record, for errors of its
 * images. -EBADMSG: a value has another type, or a file column has none. Errors name the record. */
int record_sample_read(struct record_sampler *sampler, const struct columns *columns,
                       const struct record *record, const char *name, struct source_sample *sample,
                       struct err *err);

/* Stores the text of a key or class column. */
int record_sample_text(struct record_sampler *sampler, const struct column *column,
                       const struct record *record, char text[COLUMN_TEXT_BYTES_MAX],
                       struct err *err);

#endif
