/*
 * native — what the sources of the extension `millrace._native` share.
 *
 * The extension uses Python's limited API of 3.11, so one build works with all later versions. It
 * sets no policy: it translates options and errors, and hands out the loader's memory without
 * copies. Python code decides the rest.
 *
 * Threads: a function that may wait releases the GIL. A lock of the library is never held while
 * waiting for the GIL: threads of the library run no Python code.
 */
#ifndef MILLRACE_PYTHON_NATIVE_H
#define MILLRACE_PYTHON_NATIVE_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Of the module. Strong references. */
struct native_state {
    PyTypeObject *array_type, *loader_type, *dataset_type, *communicator_type, *saver_type,
        *reader_type;
};
/* For methods of the module's types. */
struct native_state *native_state_of(PyTypeObject *type);

#endif
