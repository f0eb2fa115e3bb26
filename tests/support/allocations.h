/*
 * allocations — counts how often the program's own code calls malloc and related functions.
 *
 * A test program that lists support/allocations.c among its sources has the calls of all threads
 * counted. A call is ours if it returns into the program's own text, which contains all of millrace
 * and the test. Calls by shared libraries (libjpeg's pools) are others.
 */
#ifndef MILLRACE_TESTS_SUPPORT_ALLOCATIONS_H
#define MILLRACE_TESTS_SUPPORT_ALLOCATIONS_H

#include <stddef.h>

/* Calls so far. Skips the running test if a sanitizer replaces malloc. */
size_t allocations_ours(void);
size_t allocations_others(void);

#endif
