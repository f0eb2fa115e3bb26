/*
 * devices — the devices for which loaders allocate pinned memory and whose arrays savers read.
 */
#ifndef MILLRACE_PYTHON_DEVICES_H
#define MILLRACE_PYTHON_DEVICES_H

#include "device/device.h"
#include "python/native/native.h"

/* The device of that name (device_open), opened when it is first asked for. It stays open, because
 * arrays may outlive their loader. Returns -1 with an exception set. Needs the GIL. */
int devices_find(const char *name, struct device **ret_device);
/* open_device(name): the same from Python, to see whether it can be opened. */
PyObject *open_device(PyObject *module, PyObject *name);

#endif
