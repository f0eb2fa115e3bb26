/*
 * batch_dict — see batch_dict.h.
 */
#include "python/native/batch_dict.h"

#include "python/native/array.h"

#include <string.h>

/* ---- Batches. ---- */

static PyObject *create_part(PyTypeObject *type, const struct batch *batch,
                             const struct batch_field *field, enum array_part part)
{
    return array_create(type, field, part, batch->items_count, batch_field_retain(field));
}

/* Returns an Array, or a tuple of three of a ragged field. */
static PyObject *create_field(PyTypeObject *type, const struct batch *batch,
                              const struct batch_field *field)
{
    PyObject *values = create_part(type, batch, field, ARRAY_VALUES);
    if (!values || !field->offsets)
        return values;
    PyObject *offsets = create_part(type, batch, field, ARRAY_OFFSETS);
    PyObject *shapes = offsets ? create_part(type, batch, field, ARRAY_SHAPES) : NULL;
    PyObject *tuple = shapes ? PyTuple_Pack(3, values, offsets, shapes) : NULL;
    Py_XDECREF(shapes);
    Py_XDECREF(offsets);
    Py_DECREF(values);
    return tuple;
}

/* Adds a value, which is taken. Returns -1 with an exception set, also if value is NULL. */
static int add_value(PyObject *dict, const char *name, PyObject *value)
{
    int status = value ? PyDict_SetItemString(dict, name, value) : -1;
    Py_XDECREF(value);
    return status;
}

static PyObject *create_dict(PyTypeObject *array_type, const struct batch *batch,
                             PyObject *(*create)(PyTypeObject *type, const struct batch *batch,
                                                 const struct batch_field *field))
{
    PyObject *fields = PyDict_New();
    for (uint32_t f = 0; fields && f < batch->fields_count; f++) {
        const struct batch_field *field = &batch->fields[f];
        if (add_value(fields, field->name, create(array_type, batch, field)))
            Py_CLEAR(fields);
    }
    return fields;
}

PyObject *batch_dict(PyTypeObject *array_type, const struct batch *batch)
{
    return create_dict(array_type, batch, create_field);
}

/* ---- Samples. ---- */

static PyObject *create_item(PyTypeObject *type, const struct batch *batch,
                             const struct batch_field *field)
{
    struct batch_field item = *field;
    if (field->offsets) {
        int64_t stride = (int64_t)dtype_bytes(field->dtype);
        item.rank = field->item_rank;
        for (uint32_t d = item.rank; d-- > 0; stride *= field->shapes[d]) {
            item.shape[d] = (uint64_t)field->shapes[d];
            item.stride_bytes[d] = stride;
        }
        item.offsets = item.shapes = NULL;
    } else {
        item.rank--;
        memmove(item.shape, item.shape + 1, item.rank * sizeof item.shape[0]);
        memmove(item.stride_bytes, item.stride_bytes + 1, item.rank * sizeof item.stride_bytes[0]);
    }
    return create_part(type, batch, &item, ARRAY_VALUES);
}

static PyObject *stored_dict(const struct batch_item *item)
{
    PyObject *dict = PyDict_New();
    if (dict && add_value(dict, "__key__", key_to_python(item->key, item->key_bytes)))
        Py_CLEAR(dict);
    for (uint32_t i = 0; dict && i < item->fields_count; i++) {
        const struct batch_bytes *field = &item->fields[i];
        PyObject *name = key_to_python(field->extension, strlen(field->extension));
        PyObject *value = PyBytes_FromStringAndSize(field->data, (Py_ssize_t)field->bytes);
        if (!name || !value || PyDict_SetItem(dict, name, value))
            Py_CLEAR(dict);
        Py_XDECREF(name);
        Py_XDECREF(value);
    }
    return dict;
}

PyObject *sample_dict(PyTypeObject *array_type, const struct batch *batch)
{
    return batch->items[0].fields ? stored_dict(&batch->items[0])
                                  : create_dict(array_type, batch, create_item);
}

/* ---- Names. ---- */

PyObject *key_to_python(const char *key, size_t bytes)
{
    return PyUnicode_DecodeUTF8(key, (Py_ssize_t)bytes, "surrogateescape");
}

PyObject *key_from_python(PyObject *text)
{
    return PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
}

PyObject *classes_list(const struct loader_schema *schema)
{
    PyObject *list = schema->classes_count > 0 ? PyList_New((Py_ssize_t)schema->classes_count)
                                               : Py_NewRef(Py_None);
    for (uint64_t i = 0; list && i < schema->classes_count; i++) {
        PyObject *name = PyUnicode_FromString(schema->classes[i]);
        if (!name || PyList_SetItem(list, (Py_ssize_t)i, name))
            Py_CLEAR(list);
    }
    return list;
}
