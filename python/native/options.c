/*
 * options — see options.h.
 */
#include "python/native/options.h"

#include "python/native/devices.h"

#include <assert.h>
#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum kind { TEXT, BOOL, U32, U64, DOUBLE, DOUBLES, NAME, DTYPE };

/* A member of a struct. */
struct member {
    const char *key;
    enum kind kind;
    size_t offset;
    const char *const *names; /* NAME: of the enumerators, from 0 on, then NULL */
};

static const char *const order_names[] = {
    [ORDER_SHUFFLE] = "shuffle", [ORDER_FULL] = "full", [ORDER_SEQUENTIAL] = "sequential", NULL};
static const char *const decode_names[] = {[LOADER_BYTES] = "bytes",
                                           [LOADER_IMAGE] = "image",
                                           [LOADER_TOKENS] = "tokens",
                                           [LOADER_RECORD] = "record",
                                           NULL};
static const char *const field_decode_names[] = {
    [LOADER_FIELD_BYTES] = "bytes",   [LOADER_FIELD_STR] = "str",
    [LOADER_FIELD_JSON] = "json",     [LOADER_FIELD_ARRAY] = "array",
    [LOADER_FIELD_INT] = "int",       [LOADER_FIELD_F32] = "f32",
    [LOADER_FIELD_F64] = "f64",       [LOADER_FIELD_BOOL] = "bool",
    [LOADER_FIELD_TOKENS] = "tokens", [LOADER_FIELD_LABELS] = "labels",
    [LOADER_FIELD_BOXES] = "boxes",   [LOADER_FIELD_KEYPOINTS] = "keypoints",
    [LOADER_FIELD_IMAGE] = "image",   NULL};
static const char *const crop_names[] = {
    [CROP_NONE] = "none", [CROP_CENTER] = "center", [CROP_RANDOM] = "random", NULL};
static const char *const layout_names[] = {
    [IMAGE_LAYOUT_HWC] = "hwc", [IMAGE_LAYOUT_CHW] = "chw", NULL};
static const char *const box_names[] = {
    [LOADER_BOX_XYXY] = "xyxy", [LOADER_BOX_XYWH] = "xywh", [LOADER_BOX_CXCYWH] = "cxcywh", NULL};
static const char *const bad_names[] = {[LOADER_BAD_STOP] = "stop",
                                        [LOADER_BAD_SUBSTITUTE] = "substitute",
                                        [LOADER_BAD_SKIP] = "skip",
                                        NULL};
static const char *const keep_names[] = {
    [LOADER_KEEP_ERROR] = "error", [LOADER_KEEP_GROW] = "grow", NULL};
/* The geometry and augmentation of an image, which both structs have as `image`. */
/* clang-format off */
#define IMAGE_MEMBERS \
    {"image.width", U32, AT(image.width), NULL}, \
    {"image.height", U32, AT(image.height), NULL}, \
    {"image.crop.kind", NAME, AT(image.crop.kind), crop_names}, \
    {"image.crop.scale_min", DOUBLE, AT(image.crop.scale_min), NULL}, \
    {"image.crop.scale_max", DOUBLE, AT(image.crop.scale_max), NULL}, \
    {"image.crop.ratio_min", DOUBLE, AT(image.crop.ratio_min), NULL}, \
    {"image.crop.ratio_max", DOUBLE, AT(image.crop.ratio_max), NULL}, \
    {"image.crop.center_fraction", DOUBLE, AT(image.crop.center_fraction), NULL}, \
    {"image.crop.flip", BOOL, AT(image.crop.flip), NULL}, \
    {"image.augment.randaugment_ops", U32, AT(image.augment.randaugment_ops), NULL}, \
    {"image.augment.randaugment_magnitude", U32, AT(image.augment.randaugment_magnitude), NULL}, \
    {"image.augment.brightness", DOUBLE, AT(image.augment.brightness), NULL}, \
    {"image.augment.contrast", DOUBLE, AT(image.augment.contrast), NULL}, \
    {"image.augment.saturation", DOUBLE, AT(image.augment.saturation), NULL}, \
    {"image.augment.hue", DOUBLE, AT(image.augment.hue), NULL},
/* clang-format on */

#define AT(member) offsetof(struct loader_options, member)
static const struct member option_members[] = {
    {"dataset", TEXT, AT(dataset), NULL},
    {"selection.keys", TEXT, AT(selection.keys), NULL},
    {"selection.order", TEXT, AT(selection.order), NULL},
    {"selection.weights", TEXT, AT(selection.weights), NULL},
    {"selection.where", TEXT, AT(selection.where), NULL},
    {"selection.balance", TEXT, AT(selection.balance), NULL},
    {"selection.repeat", U64, AT(selection.repeat), NULL},
    {"order", NAME, AT(order), order_names},
    {"seed", U64, AT(seed), NULL},
    {"lanes", U64, AT(lanes), NULL},
    {"window", U64, AT(window), NULL},
    {"run", U64, AT(run), NULL},
    {"order_global", U64, AT(order_global), NULL},
    {"epoch", U32, AT(epoch), NULL},
    {"position", U64, AT(position), NULL},
    {"micros_done", U64, AT(micros_done), NULL},
    {"set_digest", U64, AT(set_digest), NULL},
    {"sequence_digest", U64, AT(sequence_digest), NULL},
    {"positions_max", U64, AT(positions_max), NULL},
    {"epochs_max", U64, AT(epochs_max), NULL},
    {"drop_last", BOOL, AT(drop_last), NULL},
    {"pad_last", BOOL, AT(pad_last), NULL},
    {"batching.global", U64, AT(batching.global), NULL},
    {"batching.micro", U64, AT(batching.micro), NULL},
    {"batching.rank", U32, AT(batching.rank), NULL},
    {"batching.ranks", U32, AT(batching.ranks), NULL},
    {"batching.interleaved", BOOL, AT(batching.interleaved), NULL},
    {"decode", NAME, AT(decode), decode_names},
    {"image.field", TEXT, AT(image.field), NULL},
    IMAGE_MEMBERS{"image.mixup.mixup_alpha", DOUBLE, AT(image.mixup.mixup_alpha), NULL},
    {"image.mixup.cutmix_alpha", DOUBLE, AT(image.mixup.cutmix_alpha), NULL},
    {"image.normalize.layout", NAME, AT(image.normalize.layout), layout_names},
    {"image.normalize.dtype", DTYPE, AT(image.normalize.dtype), NULL},
    {"image.normalize.channels", U32, AT(image.normalize.channels), NULL},
    {"image.normalize.mean", DOUBLES, AT(image.normalize.mean), NULL},
    {"image.normalize.std", DOUBLES, AT(image.normalize.std), NULL},
    {"image.label.from", TEXT, AT(image.label.from), NULL},
    {"image.label.path", TEXT, AT(image.label.path), NULL},
    {"image.label.map", TEXT, AT(image.label.map), NULL},
    {"image.requires_label", BOOL, AT(image.requires_label), NULL},
    {"image.label_dtype", DTYPE, AT(image.label_dtype), NULL},
    {"image.classes", U64, AT(image.classes), NULL},
    {"image.pixels_max", U64, AT(image.pixels_max), NULL},
    {"text.field", TEXT, AT(text.field), NULL},
    {"text.block", U32, AT(text.block), NULL},
    {"text.vocabulary", U64, AT(text.vocabulary), NULL},
    {"bad_policy", NAME, AT(bad_policy), bad_names},
    {"bad_fraction_max", DOUBLE, AT(bad_fraction_max), NULL},
    {"verify", BOOL, AT(verify), NULL},
    {"single_pass", BOOL, AT(single_pass), NULL},
    {"workers", U32, AT(workers), NULL},
    {"memory_bytes", U64, AT(memory_bytes), NULL},
    {"batches_ahead", U32, AT(batches_ahead), NULL},
    {"keep", NAME, AT(keep), keep_names},
    {"timeout_ns", U64, AT(timeout_ns), NULL},
};
#undef AT

#define AT(member) offsetof(struct loader_field, member)
static const struct member field_members[] = {
    {"name", TEXT, AT(name), NULL},
    {"from", TEXT, AT(from), NULL},
    {"decode", NAME, AT(decode), field_decode_names},
    {"dtype", DTYPE, AT(dtype), NULL},
    {"rank", U32, AT(rank), NULL},
    {"path", TEXT, AT(path), NULL},
    {"map", TEXT, AT(map), NULL},
    {"default", TEXT, AT(default_value), NULL},
    {"follows", TEXT, AT(follows), NULL},
    {"tokenizer", TEXT, AT(tokenizer), NULL},
    {"begin", TEXT, AT(begin_token), NULL},
    {"end", TEXT, AT(end_token), NULL},
    {"length", U32, AT(length), NULL},
    {"length_min", U32, AT(length_min), NULL},
    {"pad", U32, AT(pad_token), NULL},
    {"box_format", NAME, AT(box_format), box_names},
    {"normalized", BOOL, AT(is_normalized), NULL},
    {"visible_min", DOUBLE, AT(visible_min), NULL},
    {"normalize.layout", NAME, AT(normalize.layout), layout_names},
    {"normalize.dtype", DTYPE, AT(normalize.dtype), NULL},
    {"normalize.channels", U32, AT(normalize.channels), NULL},
    {"normalize.mean", DOUBLES, AT(normalize.mean), NULL},
    {"normalize.std", DOUBLES, AT(normalize.std), NULL},
    IMAGE_MEMBERS};
#undef AT
#undef IMAGE_MEMBERS

/* ---- Values. Return -1 with an exception set. ---- */

static int set_text(PyObject *value, const char **target)
{
    Py_ssize_t bytes;
    const char *text = PyUnicode_AsUTF8AndSize(value, &bytes);
    if (!text)
        return -1;
    if (strlen(text) != (size_t)bytes) {
        PyErr_SetString(PyExc_ValueError, "the text contains a NUL");
        return -1;
    }
    *target = text;
    return 0;
}

static int get_u64(PyObject *value, uint64_t max, uint64_t *ret_number)
{
    PyObject *number = PyNumber_Index(value);
    uint64_t result = number ? PyLong_AsUnsignedLongLong(number) : 0;
    Py_XDECREF(number);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_OverflowError))
        return -1;
    if (PyErr_Occurred() || result > max) {
        PyErr_Format(PyExc_ValueError, "%R is not between 0 and %llu", value,
                     (unsigned long long)max);
        return -1;
    }
    *ret_number = result;
    return 0;
}

static int set_double(PyObject *value, double *target)
{
    *target = PyFloat_AsDouble(value);
    return PyErr_Occurred() ? -1 : 0;
}

/* One number for each of three channels. */
static int set_doubles(PyObject *value, double target[3])
{
    for (Py_ssize_t i = 0; i < 3; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        int status = item ? set_double(item, &target[i]) : -1;
        Py_XDECREF(item);
        if (status)
            return -1;
    }
    return 0;
}

static int unknown_name(PyObject *value, const char *example)
{
    PyErr_Format(PyExc_ValueError, "%R is none of the possible values, such as '%s'", value,
                 example);
    return -1;
}

static int set_name(PyObject *value, const char *const *names, void *target)
{
    const char *text;
    if (set_text(value, &text))
        return -1;
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], text) == 0) {
            memcpy(target, &i, sizeof i);
            return 0;
        }
    return unknown_name(value, names[0]);
}

/* Names are those of base/dtype.h in lower case. */
static int set_dtype(PyObject *value, enum dtype *target)
{
    const char *text;
    if (set_text(value, &text))
        return -1;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        const char *name = dtype_name((enum dtype)i);
        size_t at = 0;
        while (name[at] && tolower((unsigned char)name[at]) == text[at])
            at++;
        if (name[at] || text[at])
            continue;
        *target = (enum dtype)i;
        return 0;
    }
    return unknown_name(value, "bool");
}

static int set_member(const struct member *member, PyObject *value, void *target)
{
    uint64_t number;
    int truth;
    switch (member->kind) {
    case TEXT:
        return set_text(value, target);
    case DOUBLE:
        return set_double(value, target);
    case DOUBLES:
        return set_doubles(value, target);
    case NAME:
        return set_name(value, member->names, target);
    case DTYPE:
        return set_dtype(value, target);
    case U64:
        return get_u64(value, UINT64_MAX, target);
    case U32:
        if (get_u64(value, UINT32_MAX, &number))
            return -1;
        *(uint32_t *)target = (uint32_t)number;
        return 0;
    case BOOL:
        truth = PyObject_IsTrue(value);
        *(bool *)target = truth > 0;
        return truth < 0 ? -1 : 0;
    }
    return -1;
}

static_assert(sizeof(unsigned) == sizeof(uint32_t), "U32 also of unsigned");
static_assert(sizeof(enum dtype) == sizeof(int) && sizeof(enum order_kind) == sizeof(int),
              "set_name writes an int");

/* Returns 1 if no member has the key. */
static int set_key(const struct member *members, size_t count, const char *key, PyObject *value,
                   void *target)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(members[i].key, key) == 0)
            return set_member(&members[i], value, (char *)target + members[i].offset);
    return 1;
}

/* ---- Structs. ---- */

/* Adds the option's name to the exception. */
static void name_exception(const char *key)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    /* of those that are created from other arguments, such as UnicodeEncodeError */
    if (PyErr_GivenExceptionMatches(type, PyExc_UnicodeError)) {
        Py_DECREF(type);
        type = Py_NewRef(PyExc_ValueError);
    }
    PyErr_Format(type, "option %s: %S", key, value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

static int set_all(const struct member *members, size_t count, PyObject *dict, void *target,
                   int (*set_other)(void *target, const char *key, PyObject *value))
{
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
        const char *name;
        if (set_text(key, &name))
            return -1;
        int status = set_key(members, count, name, value, target);
        if (status > 0 && set_other)
            status = set_other(target, name, value);
        if (status > 0)
            PyErr_SetString(PyExc_ValueError, "there is no such option");
        if (status == 0)
            continue;
        name_exception(name);
        return -1;
    }
    return 0;
}

static int add_field(struct options *options, PyObject *dict)
{
    struct loader_field *field = &options->fields[options->loader.fields_count];
    if (options->loader.fields_count == LOADER_FIELDS_MAX) {
        PyErr_Format(PyExc_ValueError, "more than %d fields", LOADER_FIELDS_MAX);
        return -1;
    }
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "a field is no dict");
        return -1;
    }
    *field = (struct loader_field){.dtype = DTYPE_F32, .rank = 1};
    options->loader.fields_count++;
    return set_all(field_members, sizeof field_members / sizeof field_members[0], dict, field,
                   NULL);
}

static int set_fields(struct options *options, PyObject *list)
{
    Py_ssize_t count = PyList_Check(list) ? PyList_Size(list) : -1;
    if (count < 0) {
        PyErr_SetString(PyExc_TypeError, "not a list");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (add_field(options, PyList_GetItem(list, i)))
            return -1;
    options->loader.fields = options->fields;
    return 0;
}

static int set_mix(struct options *options, PyObject *list)
{
    Py_ssize_t count = PyList_Check(list) ? PyList_Size(list) : -1;
    if (count <= 0 || !(options->mix = calloc((size_t)count, sizeof options->mix[0]))) {
        PyErr_SetString(PyExc_TypeError, "not a list of (path, weight)");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pair = PyList_GetItem(list, i), *path, *weight;
        if (!PyTuple_Check(pair) || !PyArg_ParseTuple(pair, "UO", &path, &weight) ||
            set_text(path, &options->mix[i].path) ||
            get_u64(weight, UINT64_MAX, &options->mix[i].weight))
            return -1;
    }
    options->loader.mix = options->mix;
    options->loader.mix_count = (uint32_t)count;
    return 0;
}

static int set_device(struct options *options, PyObject *value)
{
    const char *name = NULL;
    return set_text(value, &name) || devices_find(name, &options->loader.device) ? -1 : 0;
}

static int set_other(void *target, const char *key, PyObject *value)
{
    struct options *options = target;
    return strcmp(key, "fields") == 0   ? set_fields(options, value)
           : strcmp(key, "mix") == 0    ? set_mix(options, value)
           : strcmp(key, "device") == 0 ? set_device(options, value)
                                        : 1;
}

int options_parse(PyObject *dict, struct options *ret_options)
{
    *ret_options = (struct options){.loader = loader_options_default()};
    static_assert(offsetof(struct options, loader) == 0, "members are relative to both");
    return set_all(option_members, sizeof option_members / sizeof option_members[0], dict,
                   ret_options, set_other);
}

void options_deinit(struct options *options)
{
    free(options->mix);
}
