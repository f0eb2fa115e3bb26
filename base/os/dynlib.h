/*
 * dynlib — loads shared libraries on demand and resolves their functions.
 */
#ifndef MILLRACE_BASE_OS_DYNLIB_H
#define MILLRACE_BASE_OS_DYNLIB_H

#include <stddef.h>

/* function: the address of a function pointer of the matching type. */
struct dynlib_function {
    const char *name;
    void *function;
};

/* Loads the first file found by dlopen's search rules; it stays loaded. NULL if none is found;
 * dlerror() then describes the last failure. */
void *dynlib_open(const char *const *files, size_t count);
/* Resolves all functions. Returns NULL, or the name of a missing one; others may then be set. */
const char *dynlib_find(void *library, const struct dynlib_function *functions, size_t count);

#endif
