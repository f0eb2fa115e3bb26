/*
 * image_levels — the values of an image's 256 levels, so that a device can normalize bytes to the
 * bits that the loader computes (image/normalize.h).
 *
 *     image_levels(dtype, channels, mean, std) -> bytes
 *
 * dtype is a name of base/dtype.h, mean and std are tuples of three numbers. Returns the values
 * [256, channels] in that type. ValueError: normalize_options_check.
 */
#ifndef MILLRACE_PYTHON_IMAGE_LEVELS_H
#define MILLRACE_PYTHON_IMAGE_LEVELS_H

#include "python/native/native.h"

PyObject *image_levels(PyObject *module, PyObject *arguments);

#endif
