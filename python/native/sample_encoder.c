/*
 * sample_encoder — see sample_encoder.h.
 */
#include "python/native/sample_encoder.h"

#include "base/bytes.h"
#include "python/native/column.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 4, RECORD_BYTES_MAX = 1 << 30 };

struct field {
    const char *extension; /* borrowed */
    size_t extension_bytes;
    struct column column;
};

struct encoder {
    PyObject *pairs; /* strong: a tuple that owns the extensions; NULL: none */
    struct column keys;
    bool has_keys;
    unsigned long long first_key; /* without keys: the key of row 0 */
    struct field *fields;
    size_t fields_count;
};

static void encoder_deinit(struct encoder *encoder)
{
    column_deinit(&encoder->keys);
    for (size_t i = 0; i < encoder->fields_count; i++)
        column_deinit(&encoder->fields[i].column);
    free(encoder->fields);
    Py_CLEAR(encoder->pairs);
}

static int check_rows(const struct column *column, const char *name, long long end)
{
    if (end <= column->rows)
        return 0;
    PyErr_Format(PyExc_IndexError, "the column '%s' has %lld rows, fewer than %lld", name,
                 (long long)column->rows, end);
    return -1;
}

static int parse_field(PyObject *pair, long long end, struct field *field)
{
    PyObject *column;
    Py_ssize_t bytes;
    if (!PyTuple_Check(pair)) {
        PyErr_SetString(PyExc_TypeError, "a field is no pair of an extension and a column");
        return -1;
    }
    if (!PyArg_ParseTuple(pair, "s#O", &field->extension, &bytes, &column))
        return -1;
    field->extension_bytes = (size_t)bytes;
    return column_init(column, &field->column) || check_rows(&field->column, field->extension, end)
               ? -1
               : 0;
}

/* Call encoder_deinit even after a failure. */
static int encoder_init(PyObject *keys, PyObject *fields, long long end, struct encoder *encoder)
{
    *encoder = (struct encoder){.has_keys = !PyLong_Check(keys), .pairs = PySequence_Tuple(fields)};
    Py_ssize_t count = encoder->pairs ? PyTuple_Size(encoder->pairs) : -1;
    if (count < 0)
        return -1;
    if (!encoder->has_keys)
        encoder->first_key = PyLong_AsUnsignedLongLong(keys);
    else if (column_init(keys, &encoder->keys) || check_rows(&encoder->keys, "key", end))
        return -1;
    if (PyErr_Occurred())
        return -1;
    encoder->fields = calloc((size_t)count + 1, sizeof *encoder->fields);
    if (!encoder->fields) {
        PyErr_NoMemory();
        return -1;
    }
    encoder->fields_count = (size_t)count;
    for (Py_ssize_t i = 0; i < count; i++)
        if (parse_field(PyTuple_GetItem(encoder->pairs, i), end, &encoder->fields[i]))
            return -1;
    return 0;
}

static int reject_row(long long row, const char *what)
{
    PyErr_Format(PyExc_ValueError, "row %lld: %s", row, what);
    return -1;
}

static int key_value(const struct encoder *encoder, long long row, char digits[COLUMN_DIGITS_MAX],
                     const char **ret_key, size_t *ret_bytes)
{
    if (encoder->has_keys)
        return column_value(&encoder->keys, row, digits, ret_key, ret_bytes);
    *ret_bytes = column_put_digits(encoder->first_key + (unsigned long long)row, 8, digits);
    *ret_key = digits;
    return 1;
}

/* The bytes of a row's record after its length. Returns -1 with an exception set. */
static int measure(const struct encoder *encoder, long long row, size_t *ret_bytes)
{
    char digits[COLUMN_DIGITS_MAX];
    const char *data;
    size_t bytes, total = 2 * NUMBER_BYTES;
    bool is_empty = true;
    int status = key_value(encoder, row, digits, &data, &bytes);
    if (status < 0)
        return -1;
    if (status == 0)
        return reject_row(row, "its key is null");
    total += bytes;
    for (size_t i = 0; i < encoder->fields_count; i++) {
        const struct field *field = &encoder->fields[i];
        status = column_value(&field->column, row, digits, &data, &bytes);
        if (status < 0)
            return -1;
        if (status == 0)
            continue;
        is_empty = false;
        total += 2 * NUMBER_BYTES + field->extension_bytes + bytes;
    }
    if (is_empty)
        return reject_row(row, "all its fields are null");
    if (total > RECORD_BYTES_MAX)
        return reject_row(row, "the sample is larger than 1 GiB");
    *ret_bytes = total;
    return 0;
}

static char *put_number(char *at, size_t number)
{
    bytes_put_u32(at, (uint32_t)number);
    return at + NUMBER_BYTES;
}

static char *put_bytes(char *at, const char *data, size_t bytes)
{
    if (bytes > 0) /* an empty Arrow buffer may be NULL */
        memcpy(at, data, bytes);
    return at + bytes;
}

/* Writes the record of a row that measure has accepted. Returns its end. */
static char *put_record(const struct encoder *encoder, long long row, char *record)
{
    char digits[COLUMN_DIGITS_MAX], *at = record + 3 * NUMBER_BYTES;
    const char *data = NULL;
    size_t bytes = 0, key_bytes = 0, count = 0;
    key_value(encoder, row, digits, &data, &key_bytes);
    at = put_bytes(at, data, key_bytes);
    for (size_t i = 0; i < encoder->fields_count; i++) {
        const struct field *field = &encoder->fields[i];
        if (column_value(&field->column, row, digits, &data, &bytes) != 1)
            continue;
        count++;
        at = put_number(at, field->extension_bytes);
        at = put_number(at, bytes);
        at = put_bytes(at, field->extension, field->extension_bytes);
        at = put_bytes(at, data, bytes);
    }
    record = put_number(record, (size_t)(at - record) - NUMBER_BYTES);
    record = put_number(record, count);
    put_number(record, key_bytes);
    return at;
}

static PyObject *encode_rows(const struct encoder *encoder, long long begin, long long end)
{
    size_t total = 0, bytes;
    for (long long row = begin; row < end; row++) {
        if (measure(encoder, row, &bytes))
            return NULL;
        total += NUMBER_BYTES + bytes;
    }
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    char *at = result ? PyBytes_AsString(result) : NULL;
    for (long long row = begin; row < end && at; row++)
        at = put_record(encoder, row, at);
    return result;
}

PyObject *encode_samples(PyObject *module, PyObject *arguments)
{
    PyObject *keys, *fields, *result = NULL;
    long long begin, end;
    struct encoder encoder;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOLL", &keys, &fields, &begin, &end))
        return NULL;
    if (begin < 0 || end < begin) {
        PyErr_SetString(PyExc_IndexError, "the rows have no valid range");
        return NULL;
    }
    if (encoder_init(keys, fields, end, &encoder) == 0)
        result = encode_rows(&encoder, begin, end);
    encoder_deinit(&encoder);
    return result;
}
