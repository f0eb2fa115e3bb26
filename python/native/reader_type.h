/*
 * reader_type — `Reader`: a struct ckpt_reader of a step that all ranks have.
 *
 *     Reader(path, communicator, log)  collective. path: a step, or a folder, whose newest complete
 *                                      step is opened; log: as for Saver
 *     step, path                       attributes
 *     state()                          the text of the state's JSON object
 *     tensors()                        list of (name, dtype, shape)
 *     load(tensors, communicator)      collective: fills the parts of arrays (tensor_list.h)
 *     close()
 *     Reader.list_steps(folder)        static: the numbers of the complete steps
 *
 * While they read, signals wait, since the library cannot stop a load.
 *
 * Use by one thread at a time, not in a child after fork (use.h).
 */
#ifndef MILLRACE_PYTHON_READER_TYPE_H
#define MILLRACE_PYTHON_READER_TYPE_H

#include "python/native/native.h"

/* Creates the module's type Reader. NULL: an exception is set. */
PyTypeObject *reader_type_create(PyObject *module);

#endif
