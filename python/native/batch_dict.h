/*
 * batch_dict — batches and samples as Python dicts.
 */
#ifndef MILLRACE_PYTHON_BATCH_DICT_H
#define MILLRACE_PYTHON_BATCH_DICT_H

#include "loader/loader.h"
#include "python/native/native.h"

/* All return NULL with an exception set. */

/* {name: Array}, or of a ragged field (values, offsets, shapes). */
PyObject *batch_dict(PyTypeObject *array_type, const struct batch *batch);
/* Of a batch of one: {name: Array} without the dimension of the items; of LOADER_BYTES,
 * {"__key__": str, extension: bytes}. */
PyObject *sample_dict(PyTypeObject *array_type, const struct batch *batch);

/* Keys are bytes of a tar, perhaps not UTF-8: as Python does with file names. */
PyObject *key_to_python(const char *key, size_t bytes);
/* Returns bytes. */
PyObject *key_from_python(PyObject *text);

/* The names of the classes by number, list[str]; None if they are unknown. */
PyObject *classes_list(const struct loader_schema *schema);

#endif
