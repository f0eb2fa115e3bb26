/*
 * column — see column.h.
 */
#include "python/native/column.h"

#include <stdbool.h>
#include <string.h>

static int init_arrow(PyObject *object, struct column *column)
{
    column->owner = PyObject_CallMethod(object, "__arrow_c_array__", NULL);
    PyObject *schema_capsule, *array_capsule;
    if (!column->owner || !PyArg_ParseTuple(column->owner, "OO", &schema_capsule, &array_capsule))
        return -1;
    const struct arrow_schema *schema = PyCapsule_GetPointer(schema_capsule, ARROW_SCHEMA_CAPSULE);
    const struct arrow_array *array = PyCapsule_GetPointer(array_capsule, ARROW_ARRAY_CAPSULE);
    if (!schema || !array)
        return -1;
    if (schema->dictionary || strlen(schema->format) != 1 ||
        !strchr("uUzZcCsSiIlL", schema->format[0])) {
        PyErr_Format(PyExc_TypeError,
                     "an Arrow array of type '%s'%s: expected a string, binary or an integer",
                     schema->format, schema->dictionary ? " with a dictionary" : "");
        return -1;
    }
    column->array = array;
    column->format = schema->format[0];
    column->rows = array->length;
    return 0;
}

int column_init(PyObject *object, struct column *ret_column)
{
    *ret_column = (struct column){0};
    if (PyList_Check(object) || PyTuple_Check(object)) {
        ret_column->owner = Py_NewRef(object);
        ret_column->rows = PySequence_Size(object);
        return 0;
    }
    if (PyObject_HasAttrString(object, "__arrow_c_array__"))
        return init_arrow(object, ret_column);
    PyErr_SetString(PyExc_TypeError, "a column is a list, a tuple or an Arrow array");
    return -1;
}

void column_deinit(struct column *column)
{
    Py_CLEAR(column->owner);
    *column = (struct column){0};
}

/* Checks the row again, because Python code may have shortened a list. */
static int object_value(const struct column *column, int64_t row, const char **ret_data,
                        size_t *ret_bytes)
{
    PyObject *item = PyList_Check(column->owner) ? PyList_GetItem(column->owner, (Py_ssize_t)row)
                                                 : PyTuple_GetItem(column->owner, (Py_ssize_t)row);
    char *data;
    Py_ssize_t bytes;
    if (!item)
        return -1;
    if (item == Py_None)
        return 0;
    if (PyUnicode_Check(item)) {
        *ret_data = PyUnicode_AsUTF8AndSize(item, &bytes);
        *ret_bytes = (size_t)bytes;
        return *ret_data ? 1 : -1;
    }
    if (!PyBytes_Check(item)) {
        PyErr_Format(PyExc_TypeError, "row %lld of a column: expected bytes, str or None",
                     (long long)row);
        return -1;
    }
    if (PyBytes_AsStringAndSize(item, &data, &bytes))
        return -1;
    *ret_data = data;
    *ret_bytes = (size_t)bytes;
    return 1;
}

static bool is_null(const struct arrow_array *array, int64_t at)
{
    const uint8_t *valid = array->null_count == 0 ? NULL : array->buffers[0];
    return valid && !(valid[at / 8] >> at % 8 & 1);
}

static int64_t integer_at(char format, const void *values, int64_t at)
{
    switch (format) {
    case 'c':
        return ((const int8_t *)values)[at];
    case 'C':
        return ((const uint8_t *)values)[at];
    case 's':
        return ((const int16_t *)values)[at];
    case 'S':
        return ((const uint16_t *)values)[at];
    case 'i':
        return ((const int32_t *)values)[at];
    case 'I':
        return ((const uint32_t *)values)[at];
    default:
        return ((const int64_t *)values)[at];
    }
}

size_t column_put_digits(uint64_t number, size_t digits_min, char digits[COLUMN_DIGITS_MAX])
{
    char reversed[COLUMN_DIGITS_MAX];
    size_t count = 0;
    for (; number > 0 || count < digits_min; number /= 10)
        reversed[count++] = (char)('0' + number % 10);
    for (size_t i = 0; i < count; i++)
        digits[i] = reversed[count - 1 - i];
    return count;
}

static size_t put_integer(bool is_negative, uint64_t magnitude, char digits[COLUMN_DIGITS_MAX])
{
    digits[0] = '-';
    return is_negative + column_put_digits(magnitude, 1, digits + is_negative);
}

int column_value(const struct column *column, int64_t row, char digits[COLUMN_DIGITS_MAX],
                 const char **ret_data, size_t *ret_bytes)
{
    const struct arrow_array *array = column->array;
    if (!array)
        return object_value(column, row, ret_data, ret_bytes);
    int64_t at = array->offset + row;
    if (is_null(array, at))
        return 0;
    if (column->format == 'u' || column->format == 'z') {
        const int32_t *offsets = array->buffers[1];
        *ret_data = (const char *)array->buffers[2] + offsets[at];
        *ret_bytes = (size_t)(offsets[at + 1] - offsets[at]);
    } else if (column->format == 'U' || column->format == 'Z') {
        const int64_t *offsets = array->buffers[1];
        *ret_data = (const char *)array->buffers[2] + offsets[at];
        *ret_bytes = (size_t)(offsets[at + 1] - offsets[at]);
    } else {
        int64_t value = integer_at(column->format, array->buffers[1], at);
        bool is_negative = value < 0 && column->format != 'L';
        *ret_data = digits;
        *ret_bytes =
            put_integer(is_negative, is_negative ? -(uint64_t)value : (uint64_t)value, digits);
    }
    return 1;
}
