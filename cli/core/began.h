/*
 * began — since when a run's time limit counts, where that is before the program began: launch's
 * first attempt hands it on to those after it.
 *
 *     MILLRACE_BEGAN=1732280000    seconds since 1970-01-01 UTC, whole
 */
#ifndef MILLRACE_CLI_CORE_BEGAN_H
#define MILLRACE_CLI_CORE_BEGAN_H

#include "base/err.h"

#include <stdint.h>

#define BEGAN_VARIABLE "MILLRACE_BEGAN"

/* text: the variable's; NULL or empty: none. How long before wall_ns that was; 0: nobody says, or a
 * clock that is ahead. -EINVAL where it is no time. Pure. */
int began_before(const char *text, uint64_t wall_ns, uint64_t *ret_ns, struct err *err);

#endif
