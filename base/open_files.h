/*
 * open_files — how many files the process may have open, and how near it is to that.
 *
 * A new descriptor has the lowest number that is free, so its number tells how many are taken,
 * whoever took them. That is how the parts of a process that open many files leave the last ones to
 * those that need a few.
 *
 * Threads: any. What was found may be otherwise a moment later.
 */
#ifndef MILLRACE_BASE_OPEN_FILES_H
#define MILLRACE_BASE_OPEN_FILES_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Shares of the limit, in eighths. */
enum open_files_share {
    OPEN_FILES_HALF = 4,
    OPEN_FILES_MOST = 7, /* all but those for who needs a few */
    OPEN_FILES_ALL = 8,
};

uint64_t open_files_max(void); /* UINT64_MAX: there is no limit */
/* Whether the next descriptor would be within the share. True of all: the system itself is to
 * tell. */
bool open_files_has_next(enum open_files_share share);
/* Whether this one is. */
bool open_files_has(enum open_files_share share, int fd);
/* Advises to raise the limit: where it is, and who may. Returns the detail's code. */
void open_files_advise(struct err *err);
/* The same as a text that lasts. */
const char *open_files_advice(void);

#endif
