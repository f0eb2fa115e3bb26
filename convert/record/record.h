/*
 * record — the decoded values of one record of a file format such as TFRecord.
 *
 * A format's decoder fills a record; record_columns.h maps its values to the fields of a sample.
 *
 *     record_clear(&record, path, offset);
 *     record_add(&record, name, name_bytes, RECORD_STRINGS, &value, err);
 *     record_add_string(&record, value, data, bytes, err);
 */
#ifndef MILLRACE_CONVERT_RECORD_RECORD_H
#define MILLRACE_CONVERT_RECORD_RECORD_H

#include "base/dtype.h"
#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

enum {
    RECORD_VALUES_MAX = 256,
    RECORD_NAME_BYTES_MAX = 512, /* with the NUL; COLUMN_NAME_BYTES_MAX */
    RECORD_STRINGS_MAX = 1 << 20,
    RECORD_DATA_BYTES_MAX = 1 << 30,
};

enum record_kind {
    RECORD_STRINGS, /* texts or bytes */
    RECORD_NUMBERS, /* of one type */
    RECORD_JSON,    /* one string, in JSON */
};

struct record_string {
    const char *data; /* borrowed from the encoded record; NULL: at `at` of record->data */
    size_t at, bytes;
};

struct record_value {
    size_t name_at; /* in record->names */
    enum record_kind kind;
    bool is_list;     /* of any number of elements, perhaps one */
    bool is_bytes;    /* strings that are not text, even if they are UTF-8 */
    bool is_numbered; /* strings of which each becomes a field */
    uint64_t count;   /* of strings or numbers */
    size_t first;     /* index in record->strings, or offset in record->data */
    enum dtype dtype; /* of numbers */
    uint32_t rank;    /* of numbers; of a list: 1 */
    int64_t shape[DTYPE_RANK_MAX];
};

/* Zero-initialize. Owner thread. */
struct record {
    char path[2048]; /* IO_PATH_BYTES_MAX; for errors */
    uint64_t offset; /* of the encoded record in the file; for errors */
    struct str names, strings, data;
    uint32_t count;
    struct record_value values[RECORD_VALUES_MAX];
};

void record_deinit(struct record *record);
void record_clear(struct record *record, const char *path, uint64_t offset);

/* Adds a value without elements; at most one is incomplete at a time. -EBADMSG: the name is
 * repeated, empty, too long or not plain UTF-8. -E2BIG, -ENOMEM. */
int record_add(struct record *record, const void *name, size_t name_bytes, enum record_kind kind,
               struct record_value **ret_value, struct err *err);
/* Appends a string. The data is borrowed. */
int record_add_string(struct record *record, struct record_value *value, const void *data,
                      size_t bytes, struct err *err);
/* Appends a string that was made at the end of record->data, from `start` on. */
int record_add_made_string(struct record *record, struct record_value *value, size_t start,
                           struct err *err);
/* Appends numbers of value->dtype. */
int record_add_numbers(struct record *record, struct record_value *value, const void *numbers,
                       uint64_t count, struct err *err);

static inline const char *record_name(const struct record *record, const struct record_value *value)
{
    return record->names.data + value->name_at;
}

/* NULL if there is none. */
const struct record_value *record_find(const struct record *record, const char *name);
/* Valid until the record changes. */
const char *record_string(const struct record *record, const struct record_value *value,
                          uint64_t index, size_t *ret_bytes);
const char *record_numbers(const struct record *record, const struct record_value *value);

/* An error of the record: -EBADMSG with its path, and the offset of `at` within its encoded bytes.
 */
int record_reject(const struct record *record, uint64_t at, const char *what, const char *expected,
                  struct err *err);

#endif
