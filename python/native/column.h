/*
 * column — a column of a table: the bytes, or nothing, of each row.
 *
 * It reads these objects without copies:
 *
 *     a list or tuple of bytes, str or None
 *     an Arrow array (anything with __arrow_c_array__) of type utf8, binary, their large variants,
 *     or an integer, whose value is its decimal digits
 */
#ifndef MILLRACE_PYTHON_COLUMN_H
#define MILLRACE_PYTHON_COLUMN_H

#include "python/native/arrow_abi.h"
#include "python/native/native.h"

#include <stddef.h>

enum { COLUMN_DIGITS_MAX = 24 };

struct column {
    PyObject *owner; /* strong: the list, or the pair of Arrow's capsules; NULL: none */
    int64_t rows;
    const struct arrow_array *array; /* NULL: a list or tuple */
    char format;                     /* Arrow's type */
};

/* Returns -1 with an exception set: TypeError for other objects and types. Call column_deinit even
 * after a failure. */
int column_init(PyObject *object, struct column *ret_column);
void column_deinit(struct column *column);
/* The value of a row below rows. Returns 1; 0 if it is null; -1 with an exception set. *ret_data
 * is valid as long as the column and digits. */
int column_value(const struct column *column, int64_t row, char digits[COLUMN_DIGITS_MAX],
                 const char **ret_data, size_t *ret_bytes);

/* Writes at least so many decimal digits, without a NUL. Returns their number. digits_min is below
 * COLUMN_DIGITS_MAX - 1. */
size_t column_put_digits(uint64_t number, size_t digits_min, char digits[COLUMN_DIGITS_MAX]);

#endif
