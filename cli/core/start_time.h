/*
 * start_time — when a run's time limit began, if that was before this process started. `launch`
 * passes it from its first attempt to the restarts.
 *
 *     MILLRACE_BEGAN=1732280000    whole seconds since 1970-01-01 UTC
 */
#ifndef MILLRACE_CLI_CORE_START_TIME_H
#define MILLRACE_CLI_CORE_START_TIME_H

#include "base/err.h"

#include <stdint.h>

#define START_TIME_VARIABLE "MILLRACE_BEGAN"

/* text: the variable's value; NULL or "": not set. *ret_elapsed_ns: from that time to wall_ns; 0 if
 * it is not set or in the future. -EINVAL: not a time. Pure. */
int start_time_parse(const char *text, uint64_t wall_ns, uint64_t *ret_elapsed_ns, struct err *err);

#endif
