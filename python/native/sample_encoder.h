/*
 * sample_encoder — the records of a stream of samples (docs/reference/sample-stream.md), from the
 * columns of a table.
 */
#ifndef MILLRACE_PYTHON_SAMPLE_ENCODER_H
#define MILLRACE_PYTHON_SAMPLE_ENCODER_H

#include "python/native/native.h"

/*
 *     encode_samples(keys, fields, begin, end) -> bytes
 *
 * Rows begin to end - 1 as records, for conversion to send. keys is an int, so that row i has the
 * key "%08d" % (keys + i), or a column of keys. fields is a sequence of pairs (extension, column);
 * column.h lists what a column can be. A null leaves the field out of its sample.
 *
 * ValueError names the row: a key is null, a sample has no field, or it is over 1 GiB. IndexError:
 * a column is shorter than end.
 */
PyObject *encode_samples(PyObject *module, PyObject *arguments);

#endif
