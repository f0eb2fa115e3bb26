/*
 * communicator_type — `Communicator`: a struct comm of one rank, or of several over TCP.
 *
 *     Communicator()                    one rank
 *     Communicator(rank, ranks, address, port, token, secret, timeout)
 *                                       collective; timeout in seconds, for all ranks to arrive,
 *                                       and for one that stops answering
 *     any(flag)                         collective: whether the flag is true on any rank
 *     agree(error)                      collective: error is a text, or None; if a rank has one,
 *                                       raises the first as RuntimeError on ranks without
 *     abort()                           ends all calls on all ranks, and closes
 *     close()                           waits a few seconds for the other ranks to close
 *
 * Use by one thread at a time, not in a child after fork (use.h).
 */
#ifndef MILLRACE_PYTHON_COMMUNICATOR_TYPE_H
#define MILLRACE_PYTHON_COMMUNICATOR_TYPE_H

#include "comm/comm.h"
#include "python/native/native.h"

/* Creates the module's type Communicator. NULL: an exception is set. */
PyTypeObject *communicator_type_create(PyObject *module);

/* For use by the calling thread, until communicator_release. NULL: an exception is set. */
struct comm *communicator_acquire(PyObject *communicator);
void communicator_release(PyObject *communicator);

#endif
