/*
 * error — raises Python exceptions with the text of struct err.
 *
 * Wrong options are ValueError, exhausted memory is MemoryError, everything else is OSError with
 * the errno, so that Python chooses FileNotFoundError, TimeoutError and so on.
 */
#ifndef MILLRACE_PYTHON_ERROR_H
#define MILLRACE_PYTHON_ERROR_H

#include "base/err.h"
#include "python/native/native.h"

/* status: a negative errno. Returns NULL, for `return native_raise(...)`. */
PyObject *native_raise(int status, const struct err *err);

#endif
