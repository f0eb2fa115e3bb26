/*
 * allocations — how often this program's own code asks malloc and its kin for memory.
 *
 * A test program that lists support/allocations.c among its sources has them counted from all
 * threads; a call is ours where it returns into the program's own text, which holds all of millrace
 * and the test. Calls by shared libraries (libjpeg's pools) are others.
 */
#ifndef MILLRACE_TESTS_SUPPORT_ALLOCATIONS_H
#define MILLRACE_TESTS_SUPPORT_ALLOCATIONS_H

#include <stddef.h>

/* Calls so far. Skips the running test where a sanitizer owns malloc. */
size_t allocations_ours(void);
size_t allocations_others(void);

#endif
