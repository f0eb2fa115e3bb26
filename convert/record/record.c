/*
 * record — see record.h.
 */
#include "convert/record/record.h"

#include "base/bytes.h"
#include "base/utf8.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

void record_deinit(struct record *record)
{
    str_deinit(&record->names);
    str_deinit(&record->strings);
    str_deinit(&record->data);
}

void record_clear(struct record *record, const char *path, uint64_t offset)
{
    str_clear(&record->names);
    str_clear(&record->strings);
    str_clear(&record->data);
    record->count = 0;
    record->offset = offset;
    snprintf(record->path, sizeof record->path, "%s", path);
}

int record_reject(const struct record *record, uint64_t at, const char *what, const char *expected,
                  struct err *err)
{
    err_set(err, -EBADMSG, "%s", what);
    err_at(err, record->path, (int64_t)(record->offset + at));
    err_expected(err, "%s", expected);
    return -EBADMSG;
}

static int reject_limit(const struct record *record, const char *what, int limit, struct err *err)
{
    err_set(err, -E2BIG, "a record has too many %s", what);
    err_at(err, record->path, (int64_t)record->offset);
    err_expected(err, "at most %d", limit);
    return -E2BIG;
}

static int check_memory(const struct str *str, struct err *err)
{
    return str_status(str) ? err_set(err, -ENOMEM, "out of memory for a record") : 0;
}

int record_add(struct record *record, const void *name, size_t name_bytes, enum record_kind kind,
               struct record_value **ret_value, struct err *err)
{
    if (name_bytes == 0 || name_bytes >= RECORD_NAME_BYTES_MAX || memchr(name, '\0', name_bytes) ||
        utf8_valid_bytes(name, name_bytes) < name_bytes)
        return record_reject(record, 0, "a record has an invalid name of a value",
                             "1 to 511 bytes of UTF-8 without NUL", err);
    if (record->count == RECORD_VALUES_MAX)
        return reject_limit(record, "values", RECORD_VALUES_MAX, err);
    size_t at = record->names.bytes;
    str_add(&record->names, name, name_bytes);
    str_add(&record->names, "", 1);
    if (str_status(&record->names))
        return check_memory(&record->names, err);
    if (record_find(record, record->names.data + at)) {
        record_reject(record, 0, "a record has two values with the same name", "different names",
                      err);
        err_found(err, "\"%.150s\"", record->names.data + at);
        return -EBADMSG;
    }
    str_add_fill(&record->data, 0, bytes_round_up(record->data.bytes, 8) - record->data.bytes);
    struct record_value *value = &record->values[record->count++];
    *value = (struct record_value){
        .name_at = at,
        .kind = kind,
        .first = kind == RECORD_NUMBERS ? record->data.bytes
                                        : record->strings.bytes / sizeof(struct record_string)};
    *ret_value = value;
    return check_memory(&record->data, err);
}

static int add_string(struct record *record, struct record_value *value,
                      const struct record_string *string, struct err *err)
{
    assert(value->kind != RECORD_NUMBERS);
    if (record->strings.bytes / sizeof *string == RECORD_STRINGS_MAX)
        return reject_limit(record, "strings", RECORD_STRINGS_MAX, err);
    str_add(&record->strings, string, sizeof *string);
    value->count++;
    return check_memory(&record->strings, err);
}

int record_add_string(struct record *record, struct record_value *value, const void *data,
                      size_t bytes, struct err *err)
{
    return add_string(record, value, &(struct record_string){.data = data, .bytes = bytes}, err);
}

int record_add_made_string(struct record *record, struct record_value *value, size_t start,
                           struct err *err)
{
    const struct record_string string = {.at = start, .bytes = record->data.bytes - start};
    int status = add_string(record, value, &string, err);
    return status ? status : check_memory(&record->data, err);
}

int record_add_numbers(struct record *record, struct record_value *value, const void *numbers,
                       uint64_t count, struct err *err)
{
    assert(value->kind == RECORD_NUMBERS);
    if (count > (RECORD_DATA_BYTES_MAX - record->data.bytes) / dtype_bytes(value->dtype))
        return reject_limit(record, "bytes of numbers", RECORD_DATA_BYTES_MAX, err);
    str_add(&record->data, numbers, count * dtype_bytes(value->dtype));
    value->count += count;
    return check_memory(&record->data, err);
}

const struct record_value *record_find(const struct record *record, const char *name)
{
    for (uint32_t i = 0; i < record->count; i++)
        if (strcmp(record_name(record, &record->values[i]), name) == 0)
            return &record->values[i];
    return NULL;
}

const char *record_string(const struct record *record, const struct record_value *value,
                          uint64_t index, size_t *ret_bytes)
{
    const struct record_string *string =
        (const struct record_string *)(const void *)record->strings.data + value->first + index;
    *ret_bytes = string->bytes;
    return string->data ? string->data : record->data.data + string->at;
}

const char *record_numbers(const struct record *record, const struct record_value *value)
{
    return record->data.data + value->first;
}
