/*
 * image_levels — see image_levels.h.
 */
#include "python/native/image_levels.h"

#include "image/normalize.h"
#include "python/native/error.h"

enum { LEVELS = 256 };

PyObject *image_levels(PyObject *module, PyObject *arguments)
{
    struct normalize_options options = normalize_options_default();
    struct normalize normalize;
    const char *dtype;
    struct err err = {0};
    uint8_t rgb[LEVELS][3];
    _Alignas(float) uint8_t values[LEVELS * 3 * sizeof(float)];
    (void)module;
    if (!PyArg_ParseTuple(arguments, "sI(ddd)(ddd)", &dtype, &options.channels, &options.mean[0],
                          &options.mean[1], &options.mean[2], &options.std[0], &options.std[1],
                          &options.std[2]))
        return NULL;
    if (!dtype_from_name(dtype, &options.dtype))
        return PyErr_Format(PyExc_ValueError, "the dtype '%s' is unknown", dtype);
    int status = normalize_options_check(&options, &err);
    if (status)
        return native_raise(status, &err);
    for (uint32_t level = 0; level < LEVELS; level++)
        rgb[level][0] = rgb[level][1] = rgb[level][2] = (uint8_t)level;
    normalize_init(&normalize, &options);
    normalize_apply(&normalize, rgb[0], LEVELS, values);
    return PyBytes_FromStringAndSize(
        (const char *)values, (Py_ssize_t)(LEVELS * options.channels * dtype_bytes(options.dtype)));
}
