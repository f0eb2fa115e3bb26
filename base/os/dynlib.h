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

/* Loads the first file that dlopen finds; it stays loaded. Returns NULL if there is none; dlerror()
 * then describes the last failure. */
void *dynlib_open(const char *const *files, size_t count);
/* Returns NULL, or the name of a missing function; others may then be set. */
const char *dynlib_find(void *library, const struct dynlib_function *functions, size_t count);

#endif
