/*
 * open_files — the process's limit on open files, and how close the process is to it.
 *
 * A new descriptor gets the lowest free number, which thus shows how many are in use. Modules that
 * open many files leave the last ones for modules that need only a few.
 *
 * Thread-safe, but other threads may change the result at any time.
 */
#ifndef MILLRACE_BASE_OS_OPEN_FILES_H
#define MILLRACE_BASE_OS_OPEN_FILES_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Shares of the limit, in eighths. */
enum open_files_share {
    OPEN_FILES_HALF = 4,
    OPEN_FILES_SEVEN_EIGHTHS = 7,
    OPEN_FILES_ALL = 8,
};

uint64_t open_files_max(void); /* UINT64_MAX: unlimited */
/* Whether the next descriptor would be within the share. Always true for OPEN_FILES_ALL: the system
 * reports the failure. */
bool open_files_next_is_within(enum open_files_share share);
bool open_files_is_within(enum open_files_share share, int fd);
/* Advice on how to raise the limit. Static. */
const char *open_files_advice(void);
void open_files_advise(struct err *err); /* adds the advice to err */

#endif
