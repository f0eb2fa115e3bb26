/*
 * reader_type — see reader_type.h.
 */
#include "python/native/reader_type.h"

#include "ckpt/ckpt.h"
#include "ckpt/format/manifest.h"
#include "python/native/communicator_type.h"
#include "python/native/error.h"
#include "python/native/log_queue.h"
#include "python/native/tensor_list.h"
#include "python/native/use.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

/* Used by the thread that has acquired `use`. */
struct reader_object {
    PyObject_HEAD struct ckpt_reader *reader;
    struct io *io;
    struct use use;
};

/* ---- Life cycle. ---- */

static int open_reader(struct reader_object *self, const char *path, struct comm *comm,
                       const struct log *log)
{
    const struct ckpt_find_options options = {.below = UINT64_MAX};
    struct err err = {0};
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = io_open(path, NULL, &self->io, &err);
    if (!status)
        status =
            ckpt_reader_open_collective(self->io, path, &options, comm, &self->reader, log, &err);
    Py_END_ALLOW_THREADS;
    if (status)
        native_raise(status, &err);
    return status;
}

static PyObject *reader_create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"path", "communicator", "log", NULL};
    const char *path;
    PyObject *communicator, *log;
    struct native_state *state = native_state_of(type);
    if (!state || !PyArg_ParseTupleAndKeywords(args, kwargs, "sO!O", (char **)names, &path,
                                               state->communicator_type, &communicator, &log))
        return NULL;
    struct comm *comm = communicator_acquire(communicator);
    if (!comm)
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct reader_object *self = (struct reader_object *)(void *)allocate(type, 0);
    struct log_queue queue;
    log_queue_init(&queue, log);
    if (self) {
        self->use = use_begin("reader");
        if (open_reader(self, path, comm, &queue.log))
            Py_CLEAR(self);
    }
    communicator_release(communicator);
    log_queue_deliver(&queue);
    log_queue_deinit(&queue);
    return (PyObject *)self;
}

static void close_reader(struct reader_object *self)
{
    Py_BEGIN_ALLOW_THREADS;
    ckpt_reader_close(self->reader);
    io_close(self->io);
    Py_END_ALLOW_THREADS;
    self->reader = NULL;
    self->io = NULL;
}

static PyObject *close_method(PyObject *object, PyObject *args)
{
    struct reader_object *self = (struct reader_object *)(void *)object;
    (void)args;
    int is_due = use_close(&self->use);
    if (is_due > 0) {
        close_reader(self);
        use_release(&self->use);
    }
    return is_due < 0 ? NULL : Py_NewRef(Py_None);
}

static void reader_dealloc(PyObject *object)
{
    struct reader_object *self = (struct reader_object *)(void *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc release_memory = (freefunc)PyType_GetSlot(type, Py_tp_free);
    if (use_is_own_process(&self->use))
        close_reader(self);
    release_memory(object);
    Py_DECREF(type);
}

/* ---- Contents. ---- */

static PyObject *get_step(PyObject *object, void *closure)
{
    struct reader_object *self = (struct reader_object *)(void *)object;
    (void)closure;
    if (use_acquire(&self->use))
        return NULL;
    uint64_t step = ckpt_reader_step(self->reader);
    use_release(&self->use);
    return PyLong_FromUnsignedLongLong(step);
}

static PyObject *get_path(PyObject *object, void *closure)
{
    struct reader_object *self = (struct reader_object *)(void *)object;
    (void)closure;
    if (use_acquire(&self->use))
        return NULL;
    PyObject *path = PyUnicode_DecodeFSDefault(ckpt_reader_path(self->reader));
    use_release(&self->use);
    return path;
}

static PyObject *state_method(PyObject *object, PyObject *args)
{
    struct reader_object *self = (struct reader_object *)(void *)object;
    (void)args;
    if (use_acquire(&self->use))
        return NULL;
    char *text = json_dumps(ckpt_reader_state(self->reader), JSON_COMPACT);
    PyObject *state = text ? PyUnicode_FromString(text) : PyErr_NoMemory();
    free(text);
    use_release(&self->use);
    return state;
}

static PyObject *describe_tensor(const struct manifest_tensor *tensor)
{
    PyObject *shape = PyTuple_New((Py_ssize_t)tensor->rank);
    for (uint32_t d = 0; shape && d < tensor->rank; d++) {
        PyObject *number = PyLong_FromUnsignedLongLong(tensor->shape[d]);
        if (!number || PyTuple_SetItem(shape, (Py_ssize_t)d, number))
            Py_CLEAR(shape);
    }
    return shape ? Py_BuildValue("(ssN)", tensor->name, dtype_name(tensor->dtype), shape) : NULL;
}

static PyObject *tensors_method(PyObject *object, PyObject *args)
{
    struct reader_object *self = (struct reader_object *)(void *)object;
    (void)args;
    if (use_acquire(&self->use))
        return NULL;
    const struct manifest *manifest = ckpt_reader_manifest(self->reader);
    PyObject *list = PyList_New((Py_ssize_t)manifest->tensors_count);
    for (uint64_t i = 0; list && i < manifest->tensors_count; i++) {
        PyObject *tensor = describe_tensor(&manifest->tensors[i]);
        if (!tensor || PyList_SetItem(list, (Py_ssize_t)i, tensor))
            Py_CLEAR(list);
    }
    use_release(&self->use);
    return list;
}

static int load(struct reader_object *self, PyObject *tensors, struct comm *comm)
{
    struct tensor_list list;
    struct err err = {0};
    int status = tensor_list_parse(tensors, &list);
    if (!status) {
        Py_BEGIN_ALLOW_THREADS;
        status =
            ckpt_reader_load_collective(self->reader, comm, list.tensors, list.count, NULL, &err);
        Py_END_ALLOW_THREADS;
        if (status)
            native_raise(status, &err);
    }
    tensor_list_deinit(&list);
    return status;
}

static PyObject *load_method(PyObject *object, PyObject *args)
{
    struct reader_object *self = (struct reader_object *)(void *)object;
    struct native_state *state = native_state_of(Py_TYPE(object));
    PyObject *tensors, *communicator;
    if (!state ||
        !PyArg_ParseTuple(args, "OO!", &tensors, state->communicator_type, &communicator) ||
        use_acquire(&self->use))
        return NULL;
    struct comm *comm = communicator_acquire(communicator);
    int status = comm ? load(self, tensors, comm) : -1;
    if (comm)
        communicator_release(communicator);
    use_release(&self->use);
    return status ? NULL : Py_NewRef(Py_None);
}

/* ---- Folders. ---- */

struct step_list {
    uint64_t *steps;
    size_t count, capacity;
};

/* Runs without the GIL. */
static int add_step(void *context, const struct ckpt_entry *entry)
{
    struct step_list *list = context;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        uint64_t *steps = realloc(list->steps, capacity * sizeof *steps);
        if (!steps)
            return -ENOMEM;
        list->steps = steps;
        list->capacity = capacity;
    }
    list->steps[list->count++] = entry->step;
    return 0;
}

static PyObject *list_steps_method(PyObject *none, PyObject *args)
{
    const char *folder;
    struct step_list found = {0};
    struct err err = {0};
    struct io *io = NULL;
    int status;
    (void)none;
    if (!PyArg_ParseTuple(args, "s", &folder))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = io_open(folder, NULL, &io, &err);
    if (!status)
        status = ckpt_list(io, folder, add_step, &found, NULL, &err);
    io_close(io);
    Py_END_ALLOW_THREADS;
    PyObject *list = status ? native_raise(status, &err) : PyList_New((Py_ssize_t)found.count);
    for (size_t i = 0; list && i < found.count; i++) {
        PyObject *step = PyLong_FromUnsignedLongLong(found.steps[i]);
        if (!step || PyList_SetItem(list, (Py_ssize_t)i, step))
            Py_CLEAR(list);
    }
    free(found.steps);
    return list;
}

PyTypeObject *reader_type_create(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"state", state_method, METH_NOARGS, NULL},
        {"tensors", tensors_method, METH_NOARGS, NULL},
        {"load", load_method, METH_VARARGS, NULL},
        {"close", close_method, METH_NOARGS, NULL},
        {"list_steps", list_steps_method, METH_VARARGS | METH_STATIC, NULL},
        {0}};
    static PyGetSetDef attributes[] = {
        {.name = "step", .get = get_step}, {.name = "path", .get = get_path}, {0}};
    PyType_Slot slots[] = {{Py_tp_new, reader_create},
                           {Py_tp_dealloc, reader_dealloc},
                           {Py_tp_methods, methods},
                           {Py_tp_getset, attributes},
                           {0}};
    PyType_Spec spec = {.name = "millrace._native.Reader",
                        .basicsize = sizeof(struct reader_object),
                        .flags = Py_TPFLAGS_DEFAULT,
                        .slots = slots};
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
