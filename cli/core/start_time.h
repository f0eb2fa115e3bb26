/*
 * start_time — the time from which a run's time limit counts, if it is before the start of this
 * process. The first attempt of `launch` passes it to the restarts.
 *
 *     MILLRACE_BEGAN=1732280000    whole seconds since 1970-01-01 UTC
 */
#ifndef MILLRACE_CLI_CORE_START_TIME_H
#define MILLRACE_CLI_CORE_START_TIME_H

#include "base/err.h"

#include <stdint.h>

#define START_TIME_VARIABLE "MILLRACE_BEGAN"

/* text: the variable's value; NULL or "": not set. *ret_ns: time before wall_ns; 0 if not set or in
 * the future. -EINVAL: not a time. Pure. */
int start_time_parse(const char *text, uint64_t wall_ns, uint64_t *ret_ns, struct err *err);

#endif
