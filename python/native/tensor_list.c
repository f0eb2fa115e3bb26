/*
 * tensor_list — see tensor_list.h.
 */
#include "python/native/tensor_list.h"

#include <stdlib.h>

static int tensor_error(const char *name, const char *problem)
{
    PyErr_Format(PyExc_ValueError, "array '%s': %s", name, problem);
    return -1;
}

static int parse_numbers(const char *name, PyObject *tuple, uint64_t numbers[DTYPE_RANK_MAX])
{
    Py_ssize_t count = PyTuple_Size(tuple);
    if (count < 0 || count > DTYPE_RANK_MAX)
        return tensor_error(name, "more than 8 dimensions");
    for (Py_ssize_t i = 0; i < count; i++) {
        numbers[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(tuple, i));
        if (PyErr_Occurred())
            return -1;
    }
    return (int)count;
}

/* The box's bytes. False: they overflow. */
static bool count_bytes(const struct ckpt_tensor *tensor, uint64_t *ret_bytes)
{
    uint64_t bytes = dtype_bytes(tensor->dtype);
    for (uint32_t d = 0; d < tensor->rank; d++)
        if (__builtin_mul_overflow(bytes, tensor->extent[d], &bytes))
            return false;
    *ret_bytes = bytes;
    return true;
}

static int parse_tensor(PyObject *item, struct ckpt_tensor *tensor)
{
    const char *dtype;
    PyObject *shape, *start, *extent, *owner;
    int replicated;
    unsigned group;
    unsigned long long address, nbytes;
    uint64_t bytes;
    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "a part of an array is no tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(item, "ssO!O!O!pIKKO", &tensor->name, &dtype, &PyTuple_Type, &shape,
                          &PyTuple_Type, &start, &PyTuple_Type, &extent, &replicated, &group,
                          &address, &nbytes, &owner))
        return -1;
    int rank = parse_numbers(tensor->name, shape, tensor->shape);
    int start_rank = rank < 0 ? -1 : parse_numbers(tensor->name, start, tensor->start);
    int extent_rank = start_rank < 0 ? -1 : parse_numbers(tensor->name, extent, tensor->extent);
    if (extent_rank < 0)
        return -1;
    if (rank != start_rank || rank != extent_rank)
        return tensor_error(tensor->name, "its shape and its box have different dimensions");
    if (!dtype_from_name(dtype, &tensor->dtype))
        return tensor_error(tensor->name, "its dtype is unknown");
    tensor->rank = (uint32_t)rank;
    tensor->replicated = replicated != 0;
    tensor->group = group;
    tensor->data = (void *)(uintptr_t)address;
    if (!count_bytes(tensor, &bytes) || bytes != nbytes)
        return tensor_error(tensor->name, "its memory and its box have different sizes");
    return 0;
}

int tensor_list_parse(PyObject *sequence, struct tensor_list *ret_list)
{
    *ret_list = (struct tensor_list){.items = PySequence_Tuple(sequence)};
    Py_ssize_t count = ret_list->items ? PyTuple_Size(ret_list->items) : -1;
    if (count < 0)
        return -1;
    ret_list->tensors = calloc((size_t)count + 1, sizeof *ret_list->tensors);
    if (!ret_list->tensors) {
        PyErr_NoMemory();
        return -1;
    }
    ret_list->count = (uint64_t)count;
    for (Py_ssize_t i = 0; i < count; i++)
        if (parse_tensor(PyTuple_GetItem(ret_list->items, i), &ret_list->tensors[i]))
            return -1;
    return 0;
}

void tensor_list_deinit(struct tensor_list *list)
{
    Py_CLEAR(list->items);
    free(list->tensors);
    *list = (struct tensor_list){0};
}
