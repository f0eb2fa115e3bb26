/*
 * saver_type — `Saver`: a struct ckpt_saver.
 *
 *     Saver(options, tensors, communicator, log)
 *                         collective. options: a dict with folder, groups, staging_bytes,
 *                         keep_last, keep_every, best_metric (or None), best_mode ("min", "max", or
 *                         None to guess it), best_count and numerics_id; tensors: see
 *                         tensor_list.h; log(level, line) is called for each line of the log, on a
 *                         thread that uses the saver
 *     save(step, state)   state: the text of a JSON object. Waits for a previous save; if that
 *                         failed, begins the new save and raises the error
 *     before_update(group)
 *     wait()              until no save is in progress; raises the error of a failed save, once
 *     stats()
 *     close()             waits for a save in progress, and drops its error
 *
 * All that wait release the GIL. save(), wait() and close() end with the exception of a signal
 * handler; the save goes on, and they may be called again. No thread of the library runs Python
 * code.
 *
 * Use by one thread at a time, not in a child after fork (use.h).
 */
#ifndef MILLRACE_PYTHON_SAVER_TYPE_H
#define MILLRACE_PYTHON_SAVER_TYPE_H

#include "python/native/native.h"

/* Creates the module's type Saver. NULL: an exception is set. */
PyTypeObject *saver_type_create(PyObject *module);

#endif
