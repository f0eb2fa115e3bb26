/*
 * dataset_type — see dataset_type.h.
 */
#include "python/native/dataset_type.h"

#include "loader/sample_reader.h"
#include "python/native/batch_dict.h"
#include "python/native/error.h"
#include "python/native/options.h"

#include <string.h>
#include <unistd.h>

/* Guarded by the GIL. */
struct dataset_object {
    PyObject_HEAD struct sample_reader *reader; /* NULL: not open, or closed */
    pid_t pid;
    uint64_t calls_count; /* that use the reader */
    bool is_closed;
};

/* ---- Life cycle. ---- */

static PyObject *dataset_create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"options", NULL};
    PyObject *dict;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!", (char **)names, &PyDict_Type, &dict))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct dataset_object *self = (struct dataset_object *)(void *)allocate(type, 0);
    if (!self)
        return NULL;
    self->pid = getpid();
    struct options options;
    struct err err = {0};
    int status = options_parse(dict, &options);
    if (!status) {
        Py_BEGIN_ALLOW_THREADS;
        status = sample_reader_open(&options.loader, &self->reader, &err);
        Py_END_ALLOW_THREADS;
        if (status)
            native_raise(status, &err);
    }
    options_deinit(&options);
    if (status)
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* Closes the reader if nothing uses it. The memory of a child after fork is left alone: threads of
 * the parent may have held its locks. */
static void close_unused(struct dataset_object *self)
{
    struct sample_reader *reader = self->reader;
    if (!self->is_closed || self->calls_count > 0 || self->pid != getpid())
        return;
    self->reader = NULL;
    Py_BEGIN_ALLOW_THREADS;
    sample_reader_close(reader);
    Py_END_ALLOW_THREADS;
}

/* Returns -1 with an exception set. Call end_call after 0. */
static int begin_call(struct dataset_object *self)
{
    if (self->pid != getpid()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the dataset was opened before a fork; open it in this process");
        return -1;
    }
    if (self->is_closed) {
        PyErr_SetString(PyExc_RuntimeError, "the dataset is closed");
        return -1;
    }
    self->calls_count++;
    return 0;
}

static void end_call(struct dataset_object *self)
{
    self->calls_count--;
    close_unused(self);
}

static PyObject *dataset_close(PyObject *object, PyObject *args)
{
    struct dataset_object *self = (struct dataset_object *)(void *)object;
    (void)args;
    self->is_closed = true;
    close_unused(self);
    Py_RETURN_NONE;
}

static void dataset_dealloc(PyObject *object)
{
    struct dataset_object *self = (struct dataset_object *)(void *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc release_memory = (freefunc)PyType_GetSlot(type, Py_tp_free);
    self->is_closed = true;
    close_unused(self);
    release_memory(object);
    Py_DECREF(type);
}

/* ---- Calls. ---- */

static PyObject *dataset_read(PyObject *object, PyObject *args)
{
    struct dataset_object *self = (struct dataset_object *)(void *)object;
    struct native_state *state = native_state_of(Py_TYPE(object));
    const struct batch *batch;
    struct err err = {0};
    unsigned epoch;
    unsigned long long sample;
    if (!state || !PyArg_ParseTuple(args, "IK", &epoch, &sample) || begin_call(self))
        return NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = sample_reader_read(self->reader, epoch, sample, &batch, &err);
    Py_END_ALLOW_THREADS;
    PyObject *dict = status ? native_raise(status, &err) : sample_dict(state->array_type, batch);
    if (!status)
        sample_reader_release(self->reader, batch);
    end_call(self);
    return dict;
}

static PyObject *dataset_key(PyObject *object, PyObject *args)
{
    struct dataset_object *self = (struct dataset_object *)(void *)object;
    char key[SAMPLE_KEY_BYTES_MAX];
    struct err err = {0};
    unsigned long long sample;
    if (!PyArg_ParseTuple(args, "K", &sample) || begin_call(self))
        return NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = sample_reader_key(self->reader, sample, key, &err);
    Py_END_ALLOW_THREADS;
    end_call(self);
    return status ? native_raise(status, &err) : key_to_python(key, strlen(key));
}

static PyObject *dataset_find(PyObject *object, PyObject *args)
{
    struct dataset_object *self = (struct dataset_object *)(void *)object;
    struct err err = {0};
    uint64_t sample;
    PyObject *text;
    char *key;
    Py_ssize_t bytes_count;
    if (!PyArg_ParseTuple(args, "U", &text))
        return NULL;
    PyObject *bytes = key_from_python(text);
    if (!bytes || PyBytes_AsStringAndSize(bytes, &key, &bytes_count) || begin_call(self)) {
        Py_XDECREF(bytes);
        return NULL;
    }
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = sample_reader_find(self->reader, key, (size_t)bytes_count, &sample, &err);
    Py_END_ALLOW_THREADS;
    Py_DECREF(bytes);
    end_call(self);
    if (status == 0)
        Py_RETURN_NONE;
    return status < 0 ? native_raise(status, &err) : PyLong_FromUnsignedLongLong(sample);
}

static PyObject *list_fields(const struct sample_reader_info *info)
{
    PyObject *list = PyList_New((Py_ssize_t)info->fields_count);
    for (uint32_t i = 0; list && i < info->fields_count; i++) {
        PyObject *name = key_to_python(info->fields[i], strlen(info->fields[i]));
        if (!name || PyList_SetItem(list, (Py_ssize_t)i, name))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *dataset_info(PyObject *object, PyObject *args)
{
    struct dataset_object *self = (struct dataset_object *)(void *)object;
    (void)args;
    if (begin_call(self))
        return NULL;
    const struct sample_reader_info info = sample_reader_info(self->reader);
    PyObject *path = PyUnicode_DecodeFSDefault(info.path), *fields = list_fields(&info),
             *classes = classes_list(info.schema), *dict = NULL;
    if (path && fields && classes)
        dict = Py_BuildValue("{s:K,s:K,s:O,s:O,s:O}", "samples", (unsigned long long)info.samples,
                             "fingerprint", (unsigned long long)info.fingerprint, "path", path,
                             "fields", fields, "classes", classes);
    Py_XDECREF(path);
    Py_XDECREF(fields);
    Py_XDECREF(classes);
    end_call(self);
    return dict;
}

PyTypeObject *dataset_type_create(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"read", dataset_read, METH_VARARGS, NULL},  {"key", dataset_key, METH_VARARGS, NULL},
        {"find", dataset_find, METH_VARARGS, NULL},  {"info", dataset_info, METH_NOARGS, NULL},
        {"close", dataset_close, METH_NOARGS, NULL}, {0}};
    PyType_Slot slots[] = {{Py_tp_new, dataset_create},
                           {Py_tp_dealloc, dataset_dealloc},
                           {Py_tp_methods, methods},
                           {0}};
    PyType_Spec spec = {.name = "millrace._native.Dataset",
                        .basicsize = sizeof(struct dataset_object),
                        .flags = Py_TPFLAGS_DEFAULT,
                        .slots = slots};
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
