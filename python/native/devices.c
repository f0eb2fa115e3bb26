/*
 * devices — see devices.h.
 */
#include "python/native/devices.h"

#include "python/native/error.h"

#include <stdlib.h>
#include <string.h>

struct open_device {
    struct open_device *next;
    struct device *device;
    char name[];
};

static struct open_device *first; /* guarded by the GIL */

int devices_find(const char *name, struct device **ret_device)
{
    struct err err = {0};
    for (const struct open_device *open = first; open; open = open->next)
        if (strcmp(open->name, name) == 0) {
            *ret_device = open->device;
            return 0;
        }
    struct open_device *added = malloc(sizeof *added + strlen(name) + 1);
    if (!added) {
        PyErr_NoMemory();
        return -1;
    }
    int status = device_open(name, &added->device, &err);
    if (status) {
        free(added);
        native_raise(status, &err);
        return -1;
    }
    strcpy(added->name, name);
    added->next = first;
    first = added;
    *ret_device = added->device;
    return 0;
}

PyObject *open_device(PyObject *module, PyObject *name)
{
    struct device *device;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    (void)module;
    return text && devices_find(text, &device) == 0 ? Py_NewRef(Py_None) : NULL;
}
