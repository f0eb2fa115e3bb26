/*
 * options — struct loader_options from a Python dict.
 *
 * Keys are the names of the members, with the names of nested structs before a dot: "seed",
 * "batching.global", "image.crop.kind". Keys that are absent keep their default. Values that are
 * enumerations are texts: {"order": "full"}. "fields" is a list of dicts of struct loader_field,
 * with "name"; "mix" is a list of (path, weight); "device" is a name of device_open.
 */
#ifndef MILLRACE_PYTHON_OPTIONS_H
#define MILLRACE_PYTHON_OPTIONS_H

#include "loader/loader.h"
#include "python/native/native.h"

struct options {
    struct loader_options loader; /* borrows what follows, and the texts of the dict */
    struct loader_field fields[LOADER_FIELDS_MAX];
    struct loader_source *mix;
};

/* dict: must live, unchanged, until loader_open has returned. Returns -1 with an exception set: an
 * unknown key, or a value of the wrong type or out of range, which it names. Call options_deinit
 * even after a failure. */
int options_parse(PyObject *dict, struct options *ret_options);
void options_deinit(struct options *options);

#endif
