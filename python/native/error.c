/*
 * error — see error.h.
 */
#include "python/native/error.h"

#include <errno.h>

PyObject *native_raise(int status, const struct err *err)
{
    char line[ERR_LINE_BYTES_MAX];
    err_format(err, line, sizeof line);
    if (status == -EINVAL || status == -ERANGE || status == -ENOTSUP) {
        PyErr_SetString(PyExc_ValueError, line);
    } else if (status == -ENOMEM) {
        PyErr_SetString(PyExc_MemoryError, line);
    } else {
        PyObject *arguments = Py_BuildValue("(is)", -status, line);
        if (arguments)
            PyErr_SetObject(PyExc_OSError, arguments);
        Py_XDECREF(arguments);
    }
    return NULL;
}
