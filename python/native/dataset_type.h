/*
 * dataset_type — `Dataset`: a struct sample_reader, for any number of threads at a time.
 *
 *     Dataset(options)          a dict (options.h), of which those of sample_reader.h matter
 *     read(epoch, sample)       dict (batch_dict.h, sample_dict). Releases the GIL
 *     key(sample)               str
 *     find(key)                 the sample's number, or None
 *     info()                    dict: samples, fingerprint, path, fields, classes
 *     close()                   arrays stay valid; calls of other threads finish first
 *
 * A closed dataset, and one that was opened before a fork, raise RuntimeError.
 */
#ifndef MILLRACE_PYTHON_DATASET_TYPE_H
#define MILLRACE_PYTHON_DATASET_TYPE_H

#include "python/native/native.h"

/* Creates the module's type Dataset. NULL: an exception is set. */
PyTypeObject *dataset_type_create(PyObject *module);

#endif
