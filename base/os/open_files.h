/*
 * open_files — checks how close the process is to its limit on open files.
 *
 * A new descriptor gets the lowest free number, so its number shows how many are in use. Modules
 * that open many files leave the last descriptors to modules that need only a few.
 *
 * Thread-safe, but other threads may change the result at any time.
 */
#ifndef MILLRACE_BASE_OS_OPEN_FILES_H
#define MILLRACE_BASE_OS_OPEN_FILES_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Fractions of the limit, in eighths. */
enum open_files_fraction {
    OPEN_FILES_HALF = 4,
    OPEN_FILES_SEVEN_EIGHTHS = 7,
    OPEN_FILES_ALL = 8,
};

uint64_t open_files_max(void); /* UINT64_MAX: unlimited */
/* Whether the next descriptor would be within the fraction. Always true for OPEN_FILES_ALL: opening
 * reports the failure. */
bool open_files_next_is_within(enum open_files_fraction fraction);
bool open_files_is_within(enum open_files_fraction fraction, int fd);
/* Advice on how to raise the limit. Static. */
const char *open_files_advice(void);
void open_files_advise(struct err *err); /* adds the advice to err */

#endif
