/*
 * saver_type — see saver_type.h.
 */
#include "python/native/saver_type.h"

#include "ckpt/ckpt.h"
#include "python/native/communicator_type.h"
#include "python/native/devices.h"
#include "python/native/error.h"
#include "python/native/log_queue.h"
#include "python/native/tensor_list.h"
#include "python/native/use.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* How often a wait looks for signals, and for its end. */
enum { POLL_NS = 2 * 1000 * 1000 };

/* Used by the thread that has acquired `use`. */
struct saver_object {
    PyObject_HEAD struct ckpt_saver *saver;
    struct io *io;
    struct use use;
    struct log_queue log;
    struct tensor_list list;
};

/* ---- Options. ---- */

static int set_best(struct ckpt_keep_rules *keep, const char *mode)
{
    if (!keep->best.metric)
        return 0;
    if (!mode) {
        if (ckpt_guess_metric_mode(keep->best.metric, &keep->best.mode))
            return 0;
        PyErr_Format(PyExc_ValueError,
                     "whether a small or a large '%s' is best is unknown: pass \"min\" or \"max\"",
                     keep->best.metric);
        return -1;
    }
    keep->best.mode = strcmp(mode, "max") == 0 ? CKPT_MODE_MAX : CKPT_MODE_MIN;
    if (keep->best.mode == CKPT_MODE_MAX || strcmp(mode, "min") == 0)
        return 0;
    PyErr_Format(PyExc_ValueError, "the mode '%s' is neither \"min\" nor \"max\"", mode);
    return -1;
}

/* Texts are borrowed from the dict. */
static int parse_options(PyObject *dict, struct ckpt_saver_options *options)
{
    static const char *const names[] = {
        "folder",    "groups",     "staging_bytes", "keep_last", "keep_every", "best_metric",
        "best_mode", "best_count", "numerics_id",   "device",    NULL};
    const char *mode = NULL, *device = NULL;
    unsigned long long staging = 0, every = 0;
    PyObject *empty = PyTuple_New(0);
    if (!empty)
        return -1;
    int parsed = PyArg_ParseTupleAndKeywords(
        empty, dict, "sIKIKzzIs|s", (char **)names, &options->folder, &options->groups_count,
        &staging, &options->keep.last, &every, &options->keep.best.metric, &mode,
        &options->keep.best.count, &options->numerics_id, &device);
    Py_DECREF(empty);
    if (!parsed || (device && devices_find(device, &options->device)))
        return -1;
    options->staging_bytes = staging;
    options->keep.every = every;
    return set_best(&options->keep, mode);
}

/* ---- Life cycle. ---- */

static void release(struct saver_object *self)
{
    use_release(&self->use);
    log_queue_deliver(&self->log);
}

static int open_saver(struct saver_object *self, struct ckpt_saver_options *options,
                      PyObject *communicator)
{
    struct err err = {0};
    int status;
    options->comm = communicator_acquire(communicator);
    if (!options->comm)
        return -1;
    Py_BEGIN_ALLOW_THREADS;
    status = io_open(options->folder, NULL, &self->io, &err);
    options->io = self->io;
    if (!status)
        status = ckpt_saver_open(options, self->list.tensors, self->list.count, &self->saver, &err);
    Py_END_ALLOW_THREADS;
    communicator_release(communicator);
    log_queue_deliver(&self->log);
    if (status)
        native_raise(status, &err);
    return status;
}

static PyObject *saver_create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"options", "tensors", "communicator", "log", NULL};
    PyObject *dict, *tensors, *communicator, *log;
    struct native_state *state = native_state_of(type);
    if (!state ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO!O", (char **)names, &PyDict_Type, &dict,
                                     &tensors, state->communicator_type, &communicator, &log))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct saver_object *self = (struct saver_object *)(void *)allocate(type, 0);
    if (!self)
        return NULL;
    struct ckpt_saver_options options = {0};
    self->use = use_begin("saver");
    log_queue_init(&self->log, log);
    options.log = &self->log.log;
    if (parse_options(dict, &options) || tensor_list_parse(tensors, &self->list) ||
        open_saver(self, &options, communicator))
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* Waits for a save in progress. */
static void close_saver(struct saver_object *self)
{
    Py_BEGIN_ALLOW_THREADS;
    ckpt_saver_close(self->saver);
    io_close(self->io);
    Py_END_ALLOW_THREADS;
    self->saver = NULL;
    self->io = NULL;
    tensor_list_deinit(&self->list);
}

static void saver_dealloc(PyObject *object)
{
    struct saver_object *self = (struct saver_object *)(void *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc release_memory = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject_GC_UnTrack(object);
    if (use_is_own_process(&self->use))
        close_saver(self);
    log_queue_deinit(&self->log);
    release_memory(object);
    Py_DECREF(type);
}

static int saver_traverse(PyObject *object, visitproc visit, void *arg)
{
    const struct saver_object *self = (struct saver_object *)(void *)object;
    Py_VISIT(self->log.function);
    Py_VISIT(self->list.items);
    Py_VISIT(Py_TYPE(object));
    return 0;
}

/* The tensors stay: a save in progress reads them. */
static int saver_clear(PyObject *object)
{
    Py_CLEAR(((struct saver_object *)(void *)object)->log.function);
    return 0;
}

/* ---- Saves. ---- */

/* Returns -1 with the exception of a signal handler. */
static int await_end(struct saver_object *self)
{
    bool is_busy;
    do {
        Py_BEGIN_ALLOW_THREADS;
        is_busy = ckpt_saver_is_busy(self->saver);
        if (is_busy)
            nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
        Py_END_ALLOW_THREADS;
        if (is_busy && PyErr_CheckSignals())
            return -1;
    } while (is_busy);
    return 0;
}

static PyObject *save_method(PyObject *object, PyObject *args)
{
    struct saver_object *self = (struct saver_object *)(void *)object;
    unsigned long long step;
    const char *state;
    struct err err = {0};
    if (!PyArg_ParseTuple(args, "Ks", &step, &state) || use_acquire(&self->use))
        return NULL;
    int status = await_end(self);
    if (!status) {
        Py_BEGIN_ALLOW_THREADS;
        status = ckpt_saver_save(self->saver, step, state, &err);
        Py_END_ALLOW_THREADS;
        if (status)
            native_raise(status, &err);
    }
    release(self);
    return status ? NULL : Py_NewRef(Py_None);
}

static PyObject *before_update_method(PyObject *object, PyObject *group_object)
{
    struct saver_object *self = (struct saver_object *)(void *)object;
    unsigned long group = PyLong_AsUnsignedLong(group_object);
    if (PyErr_Occurred() || use_acquire(&self->use))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    ckpt_saver_before_update(self->saver, (uint32_t)group);
    Py_END_ALLOW_THREADS;
    release(self);
    Py_RETURN_NONE;
}

static PyObject *wait_method(PyObject *object, PyObject *args)
{
    struct saver_object *self = (struct saver_object *)(void *)object;
    struct err err = {0};
    (void)args;
    if (use_acquire(&self->use))
        return NULL;
    int status = await_end(self);
    if (!status) {
        Py_BEGIN_ALLOW_THREADS;
        status = ckpt_saver_wait(self->saver, &err);
        Py_END_ALLOW_THREADS;
        if (status)
            native_raise(status, &err);
    }
    release(self);
    return status ? NULL : Py_NewRef(Py_None);
}

static PyObject *stats_method(PyObject *object, PyObject *args)
{
    struct saver_object *self = (struct saver_object *)(void *)object;
    (void)args;
    if (use_acquire(&self->use))
        return NULL;
    const struct ckpt_saver_stats stats = ckpt_saver_stats(self->saver);
    PyObject *dict = Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K,s:d,s:d}", "saves", (unsigned long long)stats.saves_count, "failures",
        (unsigned long long)stats.failures_count, "written_bytes",
        (unsigned long long)stats.written_bytes, "copied_bytes",
        (unsigned long long)stats.copied_bytes, "buffer_waits",
        (unsigned long long)stats.buffer_waits_count, "blocked_seconds",
        (double)stats.blocked_ns / 1e9, "last_save_seconds", (double)stats.last_save_ns / 1e9);
    release(self);
    return dict;
}

static PyObject *close_method(PyObject *object, PyObject *args)
{
    struct saver_object *self = (struct saver_object *)(void *)object;
    (void)args;
    if (!self->use.is_closed && use_is_own_process(&self->use)) {
        if (use_acquire(&self->use))
            return NULL;
        int status = await_end(self);
        release(self);
        if (status)
            return NULL;
    }
    int is_due = use_close(&self->use);
    if (is_due > 0) {
        close_saver(self);
        release(self);
    }
    return is_due < 0 ? NULL : Py_NewRef(Py_None);
}

PyTypeObject *saver_type_create(PyObject *module)
{
    static PyMethodDef methods[] = {{"save", save_method, METH_VARARGS, NULL},
                                    {"before_update", before_update_method, METH_O, NULL},
                                    {"wait", wait_method, METH_NOARGS, NULL},
                                    {"stats", stats_method, METH_NOARGS, NULL},
                                    {"close", close_method, METH_NOARGS, NULL},
                                    {0}};
    PyType_Slot slots[] = {{Py_tp_new, saver_create},        {Py_tp_dealloc, saver_dealloc},
                           {Py_tp_traverse, saver_traverse}, {Py_tp_clear, saver_clear},
                           {Py_tp_methods, methods},         {0}};
    PyType_Spec spec = {.name = "millrace._native.Saver",
                        .basicsize = sizeof(struct saver_object),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                        .slots = slots};
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
