/*
 * array — see array.h.
 */
#include "python/native/array.h"

#include "python/native/dlpack.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Immutable. */
struct array {
    PyObject_HEAD struct batch_field field; /* memory: owned */
    pid_t pid;
    Py_ssize_t shape[DTYPE_RANK_MAX], stride_bytes[DTYPE_RANK_MAX], bytes;
};

/* In a child after a fork, the parent's threads do not exist, but may have held locks. */
static void release_memory(struct batch_memory *memory, pid_t pid)
{
    if (pid == getpid())
        batch_memory_release(memory);
}

PyObject *array_create(PyTypeObject *type, const struct batch_field *field, enum array_part part,
                       uint32_t items_count, struct batch_memory *memory)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct array *array = (struct array *)(void *)allocate(type, 0);
    if (!array) {
        batch_memory_release(memory);
        return NULL;
    }
    struct batch_field *own = &array->field;
    *own = *field;
    own->memory = memory;
    array->pid = getpid();
    if (part != ARRAY_VALUES) {
        own->dtype = DTYPE_I64;
        own->data = part == ARRAY_OFFSETS ? field->offsets : field->shapes;
        own->rank = part == ARRAY_OFFSETS ? 1 : 2;
        own->shape[0] = (uint64_t)items_count + (part == ARRAY_OFFSETS);
        own->shape[1] = field->item_rank;
        own->stride_bytes[1] = sizeof(int64_t);
        own->stride_bytes[0] = part == ARRAY_OFFSETS
                                   ? (int64_t)sizeof(int64_t)
                                   : (int64_t)(sizeof(int64_t) * field->item_rank);
    }
    array->bytes = (Py_ssize_t)dtype_bytes(own->dtype);
    for (uint32_t d = 0; d < own->rank; d++) {
        array->shape[d] = (Py_ssize_t)own->shape[d];
        array->stride_bytes[d] = (Py_ssize_t)own->stride_bytes[d];
        array->bytes *= array->shape[d];
    }
    return (PyObject *)array;
}

static void array_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    const struct array *array = (struct array *)(void *)self;
    release_memory(array->field.memory, array->pid);
    release(self);
    Py_DECREF(type);
}

/* ---- Attributes. ---- */

static PyObject *tuple_of(const Py_ssize_t *numbers, uint32_t count)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (uint32_t i = 0; tuple && i < count; i++) {
        PyObject *number = PyLong_FromSsize_t(numbers[i]);
        if (!number || PyTuple_SetItem(tuple, (Py_ssize_t)i, number))
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *get_shape(PyObject *self, void *closure)
{
    const struct array *array = (struct array *)(void *)self;
    (void)closure;
    return tuple_of(array->shape, array->field.rank);
}

static PyObject *get_strides(PyObject *self, void *closure)
{
    const struct array *array = (struct array *)(void *)self;
    (void)closure;
    return tuple_of(array->stride_bytes, array->field.rank);
}

static PyObject *get_dtype(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(dtype_name(((struct array *)(void *)self)->field.dtype));
}

static PyObject *get_nbytes(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSsize_t(((struct array *)(void *)self)->bytes);
}

/* ---- DLPack. ---- */

/* An exported array. Its deleter may run on any thread, without the GIL, and after the module. */
struct export
{
    union {
        struct dlpack_managed managed;
        struct dlpack_versioned versioned;
    } as;
    struct batch_memory *memory;
    pid_t pid;
    int64_t shape[DTYPE_RANK_MAX], strides[DTYPE_RANK_MAX];
};

static void delete_export(struct export *export)
{
    release_memory(export->memory, export->pid);
    free(export);
}

static void delete_managed(struct dlpack_managed *managed)
{
    delete_export(managed->context);
}

static void delete_versioned(struct dlpack_versioned *versioned)
{
    delete_export(versioned->context);
}

/* A consumer renames the capsule. If nobody took it, it still owns the export. */
static void delete_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor"))
        delete_export(
            ((struct dlpack_managed *)PyCapsule_GetPointer(capsule, "dltensor"))->context);
    else if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        delete_export(
            ((struct dlpack_versioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned"))
                ->context);
}

static struct dlpack_dtype dlpack_dtype_of(enum dtype dtype)
{
    static const uint8_t codes[DTYPE_COUNT] = {
        [DTYPE_BOOL] = DLPACK_BOOL, [DTYPE_U8] = DLPACK_UINT,     [DTYPE_I8] = DLPACK_INT,
        [DTYPE_I16] = DLPACK_INT,   [DTYPE_U16] = DLPACK_UINT,    [DTYPE_F16] = DLPACK_FLOAT,
        [DTYPE_I32] = DLPACK_INT,   [DTYPE_BF16] = DLPACK_BFLOAT, [DTYPE_U32] = DLPACK_UINT,
        [DTYPE_F32] = DLPACK_FLOAT, [DTYPE_F64] = DLPACK_FLOAT,   [DTYPE_I64] = DLPACK_INT,
        [DTYPE_U64] = DLPACK_UINT};
    return (struct dlpack_dtype){codes[dtype], (uint8_t)(8 * dtype_bytes(dtype)), 1};
}

/* Returns a capsule that owns the array's memory. */
static PyObject *export_array(const struct array *array, bool is_versioned)
{
    const struct batch_field *field = &array->field;
    struct export *export = calloc(1, sizeof *export);
    if (!export)
        return PyErr_NoMemory();
    struct dlpack_tensor tensor = {.data = field->data,
                                   .device = {DLPACK_CPU, 0},
                                   .rank = (int32_t)field->rank,
                                   .dtype = dlpack_dtype_of(field->dtype),
                                   .shape = export->shape,
                                   .strides = export->strides};
    for (uint32_t d = 0; d < field->rank; d++) {
        export->shape[d] = (int64_t)field->shape[d];
        export->strides[d] = field->stride_bytes[d] / (int64_t)dtype_bytes(field->dtype);
    }
    if (array->pid != getpid()) {
        free(export);
        PyErr_SetString(PyExc_RuntimeError, "the array belongs to a loader opened before a fork");
        return NULL;
    }
    export->pid = array->pid;
    export->memory = batch_field_retain(field);
    if (is_versioned)
        export->as.versioned = (struct dlpack_versioned){.major = DLPACK_MAJOR,
                                                         .minor = DLPACK_MINOR,
                                                         .context = export,
                                                         .deleter = delete_versioned,
                                                         .tensor = tensor};
    else
        export->as.managed =
            (struct dlpack_managed){.tensor = tensor, .context = export, .deleter = delete_managed};
    PyObject *capsule = PyCapsule_New(&export->as, is_versioned ? "dltensor_versioned" : "dltensor",
                                      delete_capsule);
    if (!capsule)
        delete_export(export);
    return capsule;
}

/* Whether the consumer takes capsules of DLPack 1. */
static int takes_version_1(PyObject *max_version)
{
    if (!max_version || max_version == Py_None)
        return 0;
    PyObject *major = PySequence_GetItem(max_version, 0);
    long number = major ? PyLong_AsLong(major) : -1;
    Py_XDECREF(major);
    return PyErr_Occurred() ? -1 : number >= DLPACK_MAJOR;
}

static PyObject *to_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = NULL, *max_version = NULL, *device = NULL, *copy = NULL;
    int32_t type = DLPACK_CPU, number = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", (char **)names, &stream, &max_version,
                                     &device, &copy))
        return NULL;
    if (device && device != Py_None &&
        (!PyTuple_Check(device) || !PyArg_ParseTuple(device, "ii", &type, &number))) {
        PyErr_SetString(PyExc_TypeError, "dl_device is no tuple of two integers");
        return NULL;
    }
    if (type != DLPACK_CPU || copy == Py_True) {
        PyErr_SetString(PyExc_BufferError, "the array is in host memory and is not copied; copy "
                                           "what you make from it");
        return NULL;
    }
    int is_versioned = takes_version_1(max_version);
    return is_versioned < 0 ? NULL : export_array((struct array *)(void *)self, is_versioned);
}

static PyObject *to_dlpack_device(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    return Py_BuildValue("(ii)", DLPACK_CPU, 0);
}

/* ---- The buffer protocol. ---- */

/* Fields of a batch are C-contiguous, so any kind of buffer can be had. */
static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    static const char *const formats[DTYPE_COUNT] = {
        [DTYPE_BOOL] = "?", [DTYPE_U8] = "B",  [DTYPE_I8] = "b",  [DTYPE_I16] = "h",
        [DTYPE_U16] = "H",  [DTYPE_F16] = "e", [DTYPE_I32] = "i", [DTYPE_U32] = "I",
        [DTYPE_F32] = "f",  [DTYPE_F64] = "d", [DTYPE_I64] = "q", [DTYPE_U64] = "Q"};
    struct array *array = (struct array *)(void *)self;
    const char *format = formats[array->field.dtype];
    view->obj = NULL;
    if (!format) {
        PyErr_Format(PyExc_BufferError, "buffers cannot have the type %s; use DLPack",
                     dtype_name(array->field.dtype));
        return -1;
    }
    *view = (Py_buffer){.buf = array->field.data,
                        .obj = Py_NewRef(self),
                        .len = array->bytes,
                        .itemsize = (Py_ssize_t)dtype_bytes(array->field.dtype),
                        .ndim = (int)array->field.rank,
                        .format = flags & PyBUF_FORMAT ? (char *)format : NULL,
                        .shape = flags & PyBUF_ND ? array->shape : NULL,
                        .strides =
                            (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? array->stride_bytes : NULL};
    return 0;
}

/* ---- The type. ---- */

static PyObject *represent(PyObject *self)
{
    PyObject *shape = get_shape(self, NULL);
    PyObject *text =
        shape ? PyUnicode_FromFormat("Array(%s, %R)",
                                     dtype_name(((struct array *)(void *)self)->field.dtype), shape)
              : NULL;
    Py_XDECREF(shape);
    return text;
}

PyTypeObject *array_type_create(PyObject *module)
{
    static PyGetSetDef attributes[] = {{"shape", get_shape, NULL, NULL, NULL},
                                       {"strides", get_strides, NULL, NULL, NULL},
                                       {"dtype", get_dtype, NULL, NULL, NULL},
                                       {"nbytes", get_nbytes, NULL, NULL, NULL},
                                       {0}};
    static PyMethodDef methods[] = {
        {"__dlpack__", (PyCFunction)(void (*)(void))to_dlpack, METH_VARARGS | METH_KEYWORDS, NULL},
        {"__dlpack_device__", to_dlpack_device, METH_NOARGS, NULL},
        {0}};
    PyType_Slot slots[] = {{Py_tp_dealloc, array_dealloc}, {Py_tp_repr, represent},
                           {Py_tp_getset, attributes},     {Py_tp_methods, methods},
                           {Py_bf_getbuffer, get_buffer},  {0}};
    PyType_Spec spec = {.name = "millrace._native.Array",
                        .basicsize = sizeof(struct array),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        .slots = slots};
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
