/*
 * array — `Array`: one array of a batch, without a copy. Consumers take it by DLPack or the buffer
 * protocol. It, and everything made from it, keeps the loader's memory until the last of them dies,
 * in any order, on any thread, also after the loader is closed.
 *
 *     shape, strides (in bytes), dtype ("U8"), nbytes
 *     __dlpack__, __dlpack_device__, the buffer protocol (not of BF16, which it cannot describe)
 */
#ifndef MILLRACE_PYTHON_ARRAY_H
#define MILLRACE_PYTHON_ARRAY_H

#include "loader/loader.h"
#include "python/native/native.h"

/* Creates the module's type Array. NULL: an exception is set. */
PyTypeObject *array_type_create(PyObject *module);

/* Returns a new Array of the field, which is in host memory, or of its offsets or shapes. memory:
 * as returned by batch_field_retain; taken, also on failure. NULL: an exception is set. */
enum array_part { ARRAY_VALUES, ARRAY_OFFSETS, ARRAY_SHAPES };
PyObject *array_create(PyTypeObject *type, const struct batch_field *field, enum array_part part,
                       uint32_t items_count, struct batch_memory *memory);

#endif
