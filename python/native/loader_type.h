/*
 * loader_type — `Loader`: a struct loader.
 *
 *     Loader(options, log)      options: a dict (options.h); log(level, line) is called for each
 *                               line of the loader's log, on the thread that calls
 *     next()                    None at the end, or the batch's fields: {name: Array}, or for a
 *                               ragged field (values, offsets, shapes). Releases the GIL while it
 *                               waits; a signal handler that raises ends the wait, and next() may
 *                               be called again
 *     keys()                    of the last batch's samples, list[str]
 *     refs()                    their (dataset, epoch, sample)
 *     cursor()                  dict: just past the last batch (loader_cursor_in_step)
 *     shape(), stats()          dict
 *     classes()                 list[str], or None
 *     close()                   arrays stay valid
 *
 * One thread at a time, not in a child after fork (use.h).
 */
#ifndef MILLRACE_PYTHON_LOADER_TYPE_H
#define MILLRACE_PYTHON_LOADER_TYPE_H

#include "python/native/native.h"

/* Creates the module's type Loader. NULL: an exception is set. */
PyTypeObject *loader_type_create(PyObject *module);

#endif
