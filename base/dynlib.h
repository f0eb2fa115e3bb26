/*
 * dynlib — shared libraries that are loaded when they are needed, and their functions by name.
 */
#ifndef MILLRACE_BASE_DYNLIB_H
#define MILLRACE_BASE_DYNLIB_H

#include <stddef.h>

/* function: the address of a pointer to a function of its type. */
struct dynlib_function {
    const char *name;
    void *function;
};

/* The first of the files that is found, by the system's rules. NULL: none; then dlerror() tells of
 * the last. It stays loaded. */
void *dynlib_open(const char *const *files, size_t count);
/* Sets all of them: NULL. Else the name of one that the library lacks, some of the others set. */
const char *dynlib_find(void *library, const struct dynlib_function *functions, size_t count);

#endif
