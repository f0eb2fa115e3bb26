/*
 * allocations — counts the program's calls of malloc and related functions.
 *
 * In a test program that lists support/allocations.c among its sources, the calls of all threads
 * are counted. A call is ours if it returns into the program's own text, which contains all of
 * millrace and the test. Calls from shared libraries (libjpeg's pools) count as others.
 */
#ifndef MILLRACE_TESTS_SUPPORT_ALLOCATIONS_H
#define MILLRACE_TESTS_SUPPORT_ALLOCATIONS_H

#include <stddef.h>

/* Calls so far. Skips the running test if a sanitizer replaces malloc. */
size_t allocations_own_count(void);
size_t allocations_others(void);

#endif
