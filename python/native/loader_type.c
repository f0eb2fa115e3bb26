/*
 * loader_type — see loader_type.h.
 */
#include "python/native/loader_type.h"

#include "python/native/array.h"
#include "python/native/error.h"
#include "python/native/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How often a wait looks for signals. */
enum { SIGNAL_POLL_NS = 50 * 1000 * 1000 };

/* A line of the loader's log that Python has not received yet. */
struct log_entry {
    struct log_entry *next;
    enum log_level level;
    char line[];
};

/* A sample of the last batch. */
struct item {
    struct sample_ref ref;
    size_t key_at;
    uint32_t key_bytes;
};

/* Used by the thread that has set is_busy while it held the GIL. */
struct loader_object {
    PyObject_HEAD struct loader *loader; /* NULL: closed */
    bool is_busy;
    pid_t pid;
    uint64_t deadline_ns;
    struct log log;
    struct log_entry *log_first, **log_end;
    PyObject *log_function;
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

/* A line that finds no memory is lost. */
static void keep_line(void *context, enum log_level level, const char *line)
{
    struct loader_object *self = context;
    size_t bytes = strlen(line) + 1;
    struct log_entry *entry = malloc(sizeof *entry + bytes);
    if (!entry)
        return;
    entry->next = NULL;
    entry->level = level;
    memcpy(entry->line, line, bytes);
    *self->log_end = entry;
    self->log_end = &entry->next;
}

/* ---- Use by one thread. ---- */

static int acquire(struct loader_object *self)
{
    const char *problem = NULL;
    if (self->pid != getpid())
        problem = "the loader was opened before a fork, which its threads do not survive; open it "
                  "in this process, or start processes with the method 'spawn'";
    else if (self->is_busy)
        problem = "another thread uses the loader";
    else if (!self->loader)
        problem = "the loader is closed";
    if (problem)
        PyErr_SetString(PyExc_RuntimeError, problem);
    else
        self->is_busy = true;
    return problem ? -1 : 0;
}

/* Hands the log's lines to Python. An exception that the caller has set stays; those of the log
 * function go to sys.unraisablehook. */
static void deliver_log(struct loader_object *self)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    while (self->log_first) {
        struct log_entry *entry = self->log_first;
        self->log_first = entry->next;
        if (!self->log_first)
            self->log_end = &self->log_first;
        /* keys in a line may be any bytes, and may be cut */
        PyObject *line =
            PyUnicode_DecodeUTF8(entry->line, (Py_ssize_t)strlen(entry->line), "backslashreplace");
        PyObject *result =
            line && self->log_function
                ? PyObject_CallFunction(self->log_function, "iO", (int)entry->level, line)
                : NULL;
        if (PyErr_Occurred())
            PyErr_WriteUnraisable(self->log_function);
        Py_XDECREF(result);
        Py_XDECREF(line);
        free(entry);
    }
    PyErr_Restore(type, value, trace);
}

static void release(struct loader_object *self)
{
    self->is_busy = false;
    deliver_log(self);
}

/* ---- Life cycle. ---- */

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
    self->pid = getpid();
    self->log_end = &self->log_first;
    self->log_function = Py_NewRef(log);
    self->log = (struct log){keep_line, self, LOG_INFO};
    int status = options_parse(dict, &options);
    if (!status) {
        options.loader.log = &self->log;
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
    deliver_log(self);
    if (status)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *loader_close_method(PyObject *object, PyObject *args)
{
    struct loader_object *self = (struct loader_object *)(void *)object;
    (void)args;
    if (!self->loader)
        Py_RETURN_NONE;
    if (self->pid == getpid() && self->is_busy) {
        PyErr_SetString(PyExc_RuntimeError, "another thread uses the loader");
        return NULL;
    }
    struct loader *loader = self->loader;
    self->loader = NULL;
    if (self->pid == getpid()) {
        self->is_busy = true;
        Py_BEGIN_ALLOW_THREADS;
        loader_close(loader);
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
    /* in a child after fork, the memory is shared with the parent's threads and left alone */
    if (self->loader && self->pid == getpid()) {
        Py_BEGIN_ALLOW_THREADS;
        loader_close(self->loader);
        Py_END_ALLOW_THREADS;
    }
    while (self->log_first) {
        struct log_entry *entry = self->log_first;
        self->log_first = entry->next;
        free(entry);
    }
    Py_CLEAR(self->log_function);
    free(self->items);
    free(self->keys);
    release_memory(object);
    Py_DECREF(type);
}

static int loader_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((struct loader_object *)(void *)object)->log_function);
    Py_VISIT(Py_TYPE(object));
    return 0;
}

static int loader_clear(PyObject *object)
{
    Py_CLEAR(((struct loader_object *)(void *)object)->log_function);
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

static PyObject *create_part(PyTypeObject *type, const struct batch *batch,
                             const struct batch_field *field, enum array_part part)
{
    return array_create(type, field, part, batch->items_count, batch_field_retain(field));
}

/* Returns an Array, or a tuple of three of a ragged field. */
static PyObject *create_field(PyTypeObject *type, const struct batch *batch,
                              const struct batch_field *field)
{
    PyObject *values = create_part(type, batch, field, ARRAY_VALUES);
    if (!values || !field->offsets)
        return values;
    PyObject *offsets = create_part(type, batch, field, ARRAY_OFFSETS);
    PyObject *shapes = offsets ? create_part(type, batch, field, ARRAY_SHAPES) : NULL;
    PyObject *tuple = shapes ? PyTuple_Pack(3, values, offsets, shapes) : NULL;
    Py_XDECREF(shapes);
    Py_XDECREF(offsets);
    Py_DECREF(values);
    return tuple;
}

static PyObject *create_batch(struct loader_object *self, const struct batch *batch)
{
    struct native_state *state = native_state_of(Py_TYPE((PyObject *)self));
    PyObject *fields = state ? PyDict_New() : NULL;
    for (uint32_t f = 0; fields && f < batch->fields_count; f++) {
        PyObject *field = create_field(state->array_type, batch, &batch->fields[f]);
        if (!field || PyDict_SetItemString(fields, batch->fields[f].name, field))
            Py_CLEAR(fields);
        Py_XDECREF(field);
    }
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
    if (acquire(self))
        return NULL;
    do {
        self->deadline_ns = now_ns() + SIGNAL_POLL_NS;
        Py_BEGIN_ALLOW_THREADS;
        status = loader_next(self->loader, &batch, &err);
        Py_END_ALLOW_THREADS;
        deliver_log(self);
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

/* Keys are bytes of a tar, perhaps not UTF-8: as Python does with file names. */
static PyObject *describe_key(const struct loader_object *self, const struct item *item)
{
    return PyUnicode_DecodeUTF8(self->keys + item->key_at, item->key_bytes, "surrogateescape");
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
    if (acquire(self))
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
    if (acquire(self))
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
    if (acquire(self))
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
    if (acquire(self))
        return NULL;
    const struct loader_schema *schema = loader_schema(self->loader);
    PyObject *list = schema->classes_count > 0 ? PyList_New((Py_ssize_t)schema->classes_count)
                                               : Py_NewRef(Py_None);
    for (uint64_t i = 0; list && i < schema->classes_count; i++) {
        PyObject *name = PyUnicode_FromString(schema->classes[i]);
        if (!name || PyList_SetItem(list, (Py_ssize_t)i, name))
            Py_CLEAR(list);
    }
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
