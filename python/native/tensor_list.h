/*
 * tensor_list — parts of arrays, from a Python list to struct ckpt_tensor.
 *
 * Each item is a tuple:
 *
 *     (name, dtype, shape, start, extent, replicated, group, address, nbytes, owner)
 *
 * dtype is a name of base/dtype.h. The box start..start+extent of the array is row-major and dense
 * in nbytes bytes at address, in host memory or in that of the saver's device. owner is any object
 * that keeps this memory alive.
 */
#ifndef MILLRACE_PYTHON_TENSOR_LIST_H
#define MILLRACE_PYTHON_TENSOR_LIST_H

#include "ckpt/ckpt.h"
#include "python/native/native.h"

struct tensor_list {
    PyObject *items; /* strong: a tuple that owns the names and the memory; NULL: none */
    struct ckpt_tensor *tensors;
    uint64_t count;
};

/* Returns -1 with an exception set. Call tensor_list_deinit even after a failure. */
int tensor_list_parse(PyObject *sequence, struct tensor_list *ret_list);
void tensor_list_deinit(struct tensor_list *list);

#endif
