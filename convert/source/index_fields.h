/*
 * index_fields — the numbers that a conversion records in the index, for `where` and `balance`.
 *
 * Each specification has the form FIELDS[:WHAT]=NAME:
 *
 *     json:$.aesthetic=score     the number at a JSON path (base/json/jsonx_path.h)
 *     length=length              the number that is the whole field, as JSON
 *     jpg;png:width=width        the width of an image, turned upright; or its height
 *
 * FIELDS are extensions separated by `;`; a sample's first one counts. Without a specification
 * named `label`, the class number in field cls is recorded as that.
 */
#ifndef MILLRACE_CONVERT_SOURCE_INDEX_FIELDS_H
#define MILLRACE_CONVERT_SOURCE_INDEX_FIELDS_H

#include "convert/options.h"
#include "shards/format/index.h"

enum {
    INDEX_FIELDS_MAX = SHARD_NUMBERS_MAX - 1, /* one more for label */
    INDEX_FIELD_FROM_BYTES_MAX = 256,
    INDEX_FIELD_WHAT_BYTES_MAX = 512,
};
#define INDEX_FIELD_LABEL "label"

enum index_field_kind { INDEX_FIELD_JSON, INDEX_FIELD_WIDTH, INDEX_FIELD_HEIGHT };

struct index_field {
    char from[INDEX_FIELD_FROM_BYTES_MAX];
    char what[INDEX_FIELD_WHAT_BYTES_MAX]; /* a JSON path, "" for the whole field, or a kind */
    char name[SHARD_NUMBER_NAME_BYTES_MAX];
    enum index_field_kind kind;
};

/* Zero-initialize. */
struct index_fields {
    struct index_field items[INDEX_FIELDS_MAX];
    uint32_t count;
};

/* Adds a field. Images are in the form that store gives them: jpg for jpeg, or ppm. -EINVAL: the
 * form is wrong, there are two of this name, or too many. */
int index_fields_add(struct index_fields *fields, const char *text, enum convert_store store,
                     struct err *err);
bool index_fields_has(const struct index_fields *fields, const char *name);
/* Whether the extension is one of the field's. */
bool index_field_takes(const struct index_field *field, const char *extension);
/* Appends the specification. */
void index_field_format(const struct index_field *field, struct str *out);

#endif
