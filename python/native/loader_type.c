/*
 * loader_type — see loader_type.h.
 */
#include "python/native/loader_type.h"

#include "python/native/batch_dict.h"
#include "python/native/error.h"
#include "python/native/log_queue.h"
#include "python/native/options.h"
#include "python/native/use.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How often a wait looks for signals. */
enum { SIGNAL_POLL_NS = 50 * 1000 * 1000 };

/* A sample of the last batch. */
struct item {
    struct sample_ref ref;
    size_t key_at;
    uint32_t key_bytes;
};

/* Used by the thread that has acquired `use`. */
struct loader_object {
    PyObject_HEAD struct loader *loader;
    struct use use;
    uint64_t deadline_ns;
    struct log_queue log;
    /* Of the last batch. */
    struct item *items;
    char *keys;
    size_t items_capacity, keys_capacity;
    uint32_t items_count;
};

/* ---- Callbacks, which run without the GIL. ---- */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool is_poll_due(const void *context)
{
    return now_ns() >= ((const struct loader_object *)context)->deadline_ns;
}

/* ---- Life cycle. ---- */

static void release(struct loader_object *self)
{
    use_release(&self->use);
    log_queue_deliver(&self->log);
}

static PyObject *loader_create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"options", "log", NULL};
    PyObject *dict, *log;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO", (char **)names, &dict, &log))
        return NULL;
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "options is no dict");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct loader_object *self = (struct loader_object *)(void *)allocate(type, 0);
    if (!self)
        return NULL;
    struct options options;
    struct err err = {0};
    self->use = use_begin("loader");
    log_queue_init(&self->log, log);
    int status = options_parse(dict, &options);
    if (!status) {
        options.loader.log = &self->log.log;
        options.loader.wants_stop = is_poll_due;
        options.loader.stop_context = self;
        self->deadline_ns = UINT64_MAX;
        Py_BEGIN_ALLOW_THREADS;
        status = loader_open(&options.loader, &self->loader, &err);
        Py_END_ALLOW_THREADS;
        if (status)
            native_raise(status, &err);
    }
    options_deinit(&options);
    log_queue_deliver(&self->log);
    if (status)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *loader_close_method(PyObject *object, PyObject *args)
{
    struct loader_object *self = (struct loader_object *)(void *)object;
    (void)args;
    int is_due = use_close(&self->use);
    if (is_due < 0)
        return NULL;
    if (is_due) {
        Py_BEGIN_ALLOW_THREADS;
        loader_close(self->loader);
        Py_END_ALLOW_THREADS;
        release(self);
    }
    Py_RETURN_NONE;
}

static void loader_dealloc(PyObject *object)
{
    struct loader_object *self = (struct loader_object *)(void *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc release_memory = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject_GC_UnTrack(object);
    if (self->loader && !self->use.is_closed && use_is_own_process(&self->use)) {
        Py_BEGIN_ALLOW_THREADS;
        loader_close(self->loader);
        Py_END_ALLOW_THREADS;
    }
    log_queue_deinit(&self->log);
    free(self->items);
    free(self->keys);
    release_memory(object);
    Py_DECREF(type);
}

static int loader_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((struct loader_object *)(void *)object)->log.function);
    Py_VISIT(Py_TYPE(object));
    return 0;
}

static int loader_clear(PyObject *object)
{
    Py_CLEAR(((struct loader_object *)(void *)object)->log.function);
    return 0;
}

/* ---- Batches. ---- */

/* Copies what keys() and refs() return, so that they need not keep the batch. */
static int keep_items(struct loader_object *self, const struct batch *batch)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < batch->items_count; i++)
        bytes += batch->items[i].key_bytes;
    if (batch->items_count > self->items_capacity) {
        struct item *items = realloc(self->items, batch->items_count * sizeof *items);
        if (!items)
            return -1;
        self->items = items;
        self->items_capacity = batch->items_count;
    }
    if (bytes > self->keys_capacity) {
        char *keys = realloc(self->keys, bytes);
        if (!keys)
            return -1;
        self->keys = keys;
        self->keys_capacity = bytes;
    }
    size_t at = 0;
    for (uint32_t i = 0; i < batch->items_count; i++) {
        const struct batch_item *item = &batch->items[i];
        self->items[i] = (struct item){item->ref, at, item->key_bytes};
        memcpy(self->keys + at, item->key, item->key_bytes);
        at += item->key_bytes;
    }
    self->items_count = batch->items_count;
    return 0;
}

static PyObject *create_batch(struct loader_object *self, const struct batch *batch)
{
    struct native_state *state = native_state_of(Py_TYPE((PyObject *)self));
    PyObject *fields = state ? batch_dict(state->array_type, batch) : NULL;
    if (!fields)
        return NULL;
    if (keep_items(self, batch)) {
        Py_DECREF(fields);
        return PyErr_NoMemory();
    }
    return fields;
}

static PyObject *loader_next_method(PyObject *object, PyObject *args)
{
    struct loader_object *self = (struct loader_object *)(void *)object;
    const struct batch *batch = NULL;
    PyObject *result = NULL;
    struct err err = {0};
    int status;
    (void)args;
    if (use_acquire(&self->use))
        return NULL;
    do {
        self->deadline_ns = now_ns() + SIGNAL_POLL_NS;
        Py_BEGIN_ALLOW_THREADS;
        status = loader_next(self->loader, &batch, &err);
        Py_END_ALLOW_THREADS;
        log_queue_deliver(&self->log);
    } while (status == -EINTR && PyErr_CheckSignals() == 0);
    if (status == LOADER_BATCH) {
        result = create_batch(self, batch);
        loader_release(self->loader, batch);
    } else if (status == LOADER_END) {
        result = Py_NewRef(Py_None);
    } else if (!PyErr_Occurred()) {
        native_raise(status, &err);
    }
    release(self);
    return result;
}

/* Returns a list with what `describe` returns of each sample of the last batch. */
static PyObject *list_items(PyObject *object,
                            PyObject *(*describe)(const struct loader_object *self,
                                                  const struct item *item))
{
    const struct loader_object *self = (struct loader_object *)(void *)object;
    PyObject *list = PyList_New(self->items_count);
    for (uint32_t i = 0; list && i < self->items_count; i++) {
        PyObject *value = describe(self, &self->items[i]);
        if (!value || PyList_SetItem(list, i, value))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *describe_key(const struct loader_object *self, const struct item *item)
{
    return key_to_python(self->keys + item->key_at, item->key_bytes);
}

static PyObject *describe_ref(const struct loader_object *self, const struct item *item)
{
    (void)self;
    return Py_BuildValue("(IIK)", item->ref.dataset, item->ref.epoch,
                         (unsigned long long)item->ref.sample);
}

static PyObject *get_keys(PyObject *object, PyObject *args)
{
    (void)args;
    return list_items(object, describe_key);
}

static PyObject *get_refs(PyObject *object, PyObject *args)
{
    (void)args;
    return list_items(object, describe_ref);
}

/* ---- Inquiries. ---- */

static PyObject *get_cursor(PyObject *object, PyObject *args)
{
    struct loader_object *self = (struct loader_object *)(void *)object;
    (void)args;
    if (use_acquire(&self->use))
        return NULL;
    const struct cursor cursor = loader_cursor_in_step(self->loader);
    PyObject *dict = Py_BuildValue(
        "{s:K,s:K,s:I,s:K,s:K,s:K,s:K,s:s,s:K,s:K,s:K,s:K,s:I}", "fingerprint",
        (unsigned long long)cursor.fingerprint, "seed", (unsigned long long)cursor.seed, "epoch",
        cursor.epoch, "position", (unsigned long long)cursor.position, "micros_done",
        (unsigned long long)cursor.micros_done, "set_digest", (unsigned long long)cursor.set_digest,
        "sequence_digest", (unsigned long long)cursor.sequence_digest, "order",
        order_kind_name(cursor.params.kind), "samples", (unsigned long long)cursor.params.samples,
        "lanes", (unsigned long long)cursor.params.lanes, "window",
        (unsigned long long)cursor.params.window, "run", (unsigned long long)cursor.params.run,
        "order_version", cursor.order_version);
    release(self);
    return dict;
}

static PyObject *get_shape(PyObject *object, PyObject *args)
{
    struct loader_object *self = (struct loader_object *)(void *)object;
    (void)args;
    if (use_acquire(&self->use))
        return NULL;
    const struct loader_shape shape = loader_shape(self->loader);
    PyObject *dict = Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:I,s:K,s:s,s:I,s:s}", "fingerprint",
        (unsigned long long)shape.fingerprint, "samples", (unsigned long long)shape.samples,
        "steps", (unsigned long long)shape.steps, "classes_count",
        (unsigned long long)shape.classes_count, "vocabulary", shape.vocabulary, "memory_bytes",
        (unsigned long long)shape.memory_bytes, "engine", shape.engine, "workers", shape.workers,
        "pixels_libraries", shape.pixels_libraries);
    release(self);
    return dict;
}

static PyObject *get_stats(PyObject *object, PyObject *args)
{
    struct loader_object *self = (struct loader_object *)(void *)object;
    (void)args;
    if (use_acquire(&self->use))
        return NULL;
    const struct loader_stats stats = loader_stats(self->loader);
    PyObject *dict = Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:d,s:d,s:d,s:s}", "samples",
        (unsigned long long)stats.samples_count, "batches", (unsigned long long)stats.batches_count,
        "read_bytes", (unsigned long long)stats.read_bytes, "reads",
        (unsigned long long)stats.reads_count, "wanted_bytes",
        (unsigned long long)stats.wanted_bytes, "bad_samples",
        (unsigned long long)stats.bad_samples_count, "ahead", (unsigned long long)stats.ahead_count,
        "first_batch_seconds", (double)stats.first_batch_ns / 1e9, "wait_seconds",
        (double)stats.wait_ns / 1e9, "decode_cpu_seconds", (double)stats.decode_cpu_ns / 1e9,
        "limited_by", loader_stage_name(stats.limit));
    release(self);
    return dict;
}

static PyObject *get_classes(PyObject *object, PyObject *args)
{
    struct loader_object *self = (struct loader_object *)(void *)object;
    (void)args;
    if (use_acquire(&self->use))
        return NULL;
    PyObject *list = classes_list(loader_schema(self->loader));
    release(self);
    return list;
}

PyTypeObject *loader_type_create(PyObject *module)
{
    static PyMethodDef methods[] = {{"next", loader_next_method, METH_NOARGS, NULL},
                                    {"keys", get_keys, METH_NOARGS, NULL},
                                    {"refs", get_refs, METH_NOARGS, NULL},
                                    {"cursor", get_cursor, METH_NOARGS, NULL},
                                    {"shape", get_shape, METH_NOARGS, NULL},
                                    {"stats", get_stats, METH_NOARGS, NULL},
                                    {"classes", get_classes, METH_NOARGS, NULL},
                                    {"close", loader_close_method, METH_NOARGS, NULL},
                                    {0}};
    PyType_Slot slots[] = {{Py_tp_new, loader_create},        {Py_tp_dealloc, loader_dealloc},
                           {Py_tp_traverse, loader_traverse}, {Py_tp_clear, loader_clear},
                           {Py_tp_methods, methods},          {0}};
    PyType_Spec spec = {.name = "millrace._native.Loader",
                        .basicsize = sizeof(struct loader_object),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                        .slots = slots};
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
