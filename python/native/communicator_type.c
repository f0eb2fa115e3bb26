/*
 * communicator_type — see communicator_type.h.
 */
#include "python/native/communicator_type.h"

#include "comm/tcp/comm_tcp.h"
#include "python/native/error.h"
#include "python/native/use.h"

#include <stdlib.h>
#include <string.h>

#define PURPOSE "agreeing on a checkpoint"

enum { ERROR_BYTES_MAX = 512 }; /* of a text that is sent to other ranks, with its NUL */

/* Used by the thread that has acquired `use`. */
struct communicator_object {
    PyObject_HEAD struct comm *comm;
    struct use use;
};

struct comm *communicator_acquire(PyObject *communicator)
{
    struct communicator_object *self = (struct communicator_object *)(void *)communicator;
    return use_acquire(&self->use) ? NULL : self->comm;
}

void communicator_release(PyObject *communicator)
{
    use_release(&((struct communicator_object *)(void *)communicator)->use);
}

/* The library holds no lock when it calls this, so it may wait for the GIL. An exception stays set
 * for the thread. */
static bool is_interrupted(const void *context)
{
    (void)context;
    PyGILState_STATE state = PyGILState_Ensure();
    bool is_interrupted = PyErr_Occurred() || PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return is_interrupted;
}

static int open_comm(const struct tcp_rendezvous_options *options, struct comm **ret_comm)
{
    struct err err = {0};
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = options->ranks > 1 ? comm_tcp_open(options, ret_comm, &err)
                                : comm_self_open(ret_comm, &err);
    Py_END_ALLOW_THREADS;
    if (!status && (*ret_comm)->ops->set_timeout)
        (*ret_comm)->ops->set_timeout(*ret_comm, options->timeout_ns);
    if (status && !PyErr_Occurred())
        native_raise(status, &err);
    return status;
}

static PyObject *communicator_create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"rank",  "ranks",  "address", "port",
                                        "token", "secret", "timeout", NULL};
    struct tcp_secret secret = {0};
    struct tcp_rendezvous_options options = {
        .address = "", .ranks = 1, .secret = &secret, .wants_stop = is_interrupted};
    const char *key = "";
    Py_ssize_t key_bytes = 0;
    unsigned long long token = 0;
    double timeout_seconds = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|iisiKy#d", (char **)names, &options.rank,
                                     &options.ranks, &options.address, &options.port, &token, &key,
                                     &key_bytes, &timeout_seconds))
        return NULL;
    if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks ||
        key_bytes > TCP_SECRET_BYTES_MAX || !(timeout_seconds >= 0 && timeout_seconds < 1e9)) {
        PyErr_SetString(PyExc_ValueError, "the rank, the secret or the timeout is out of range");
        return NULL;
    }
    options.token = token;
    options.timeout_ns = (uint64_t)(timeout_seconds * 1e9);
    memcpy(secret.key, key, (size_t)key_bytes);
    secret.bytes = (size_t)key_bytes;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct communicator_object *self = (struct communicator_object *)(void *)allocate(type, 0);
    if (!self)
        return NULL;
    self->use = use_begin("communicator");
    if (open_comm(&options, &self->comm))
        Py_CLEAR(self);
    explicit_bzero(&secret, sizeof secret);
    return (PyObject *)self;
}

static PyObject *any_method(PyObject *object, PyObject *flag)
{
    int64_t value = PyObject_IsTrue(flag);
    struct comm *comm = value < 0 ? NULL : communicator_acquire(object);
    if (!comm)
        return NULL;
    const struct comm_options options = {.purpose = PURPOSE};
    struct comm_work work;
    struct err err = {0};
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = comm->ops->all_reduce_i64(comm, &value, 1, COMM_MAX, &options, &work, &err);
    if (!status)
        status = comm_wait(comm, &work, &err);
    Py_END_ALLOW_THREADS;
    communicator_release(object);
    return status ? native_raise(status, &err) : PyBool_FromLong(value != 0);
}

/* Raises the first text, unless this rank has one. */
static PyObject *raise_first(const struct comm *comm, char (*texts)[ERROR_BYTES_MAX])
{
    int rank = 0;
    while (rank < comm->ranks && !texts[rank][0])
        rank++;
    if (rank == comm->ranks || texts[comm->rank][0])
        Py_RETURN_NONE;
    texts[rank][ERROR_BYTES_MAX - 1] = '\0';
    PyObject *text =
        PyUnicode_DecodeUTF8(texts[rank], (Py_ssize_t)strlen(texts[rank]), "replace"); /* cut */
    if (text)
        PyErr_Format(PyExc_RuntimeError, "rank %d: %U", rank, text);
    Py_XDECREF(text);
    return NULL;
}

static PyObject *agree_method(PyObject *object, PyObject *error)
{
    const char *text = error == Py_None ? "" : PyUnicode_AsUTF8AndSize(error, NULL);
    struct comm *comm = text ? communicator_acquire(object) : NULL;
    if (!comm)
        return NULL;
    const struct comm_options options = {.purpose = PURPOSE};
    struct comm_work work;
    struct err err = {0};
    int status;
    char(*texts)[ERROR_BYTES_MAX] = calloc((size_t)comm->ranks, sizeof *texts);
    if (!texts) {
        communicator_release(object);
        return PyErr_NoMemory();
    }
    char *own = texts[comm->rank];
    memcpy(own, text, strnlen(text, ERROR_BYTES_MAX - 1));
    Py_BEGIN_ALLOW_THREADS;
    status = comm->ops->all_gather(comm, own, texts, sizeof *texts, &options, &work, &err);
    if (!status)
        status = comm_wait(comm, &work, &err);
    Py_END_ALLOW_THREADS;
    PyObject *result = status ? native_raise(status, &err) : raise_first(comm, texts);
    if (status)
        comm_retain(texts);
    else
        free(texts);
    communicator_release(object);
    return result;
}

static void close_comm(struct comm *comm, bool aborts)
{
    Py_BEGIN_ALLOW_THREADS;
    if (aborts)
        comm->ops->abort(comm);
    comm_close(comm);
    Py_END_ALLOW_THREADS;
}

static PyObject *end(PyObject *object, bool aborts)
{
    struct communicator_object *self = (struct communicator_object *)(void *)object;
    int is_due = use_close(&self->use);
    if (is_due < 0)
        return NULL;
    if (is_due) {
        close_comm(self->comm, aborts);
        use_release(&self->use);
    }
    Py_RETURN_NONE;
}

static PyObject *close_method(PyObject *object, PyObject *args)
{
    (void)args;
    return end(object, false);
}

static PyObject *abort_method(PyObject *object, PyObject *args)
{
    (void)args;
    return end(object, true);
}

static void communicator_dealloc(PyObject *object)
{
    struct communicator_object *self = (struct communicator_object *)(void *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc release_memory = (freefunc)PyType_GetSlot(type, Py_tp_free);
    if (self->comm && !self->use.is_closed && use_is_own_process(&self->use))
        close_comm(self->comm, false);
    release_memory(object);
    Py_DECREF(type);
}

PyTypeObject *communicator_type_create(PyObject *module)
{
    static PyMethodDef methods[] = {{"any", any_method, METH_O, NULL},
                                    {"agree", agree_method, METH_O, NULL},
                                    {"abort", abort_method, METH_NOARGS, NULL},
                                    {"close", close_method, METH_NOARGS, NULL},
                                    {0}};
    PyType_Slot slots[] = {{Py_tp_new, communicator_create},
                           {Py_tp_dealloc, communicator_dealloc},
                           {Py_tp_methods, methods},
                           {0}};
    PyType_Spec spec = {.name = "millrace._native.Communicator",
                        .basicsize = sizeof(struct communicator_object),
                        .flags = Py_TPFLAGS_DEFAULT,
                        .slots = slots};
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
