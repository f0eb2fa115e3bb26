/*
 * error_limit — how many items a verb may leave out: its options `--on-error stop|skip` and
 * `--max-errors N|P%`.
 */
#ifndef MILLRACE_CLI_CORE_ERROR_LIMIT_H
#define MILLRACE_CLI_CORE_ERROR_LIMIT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* More than this many end the work. By value. */
struct error_limit {
    int64_t most;    /* -1: a fraction says, or nothing does */
    double fraction; /* of all items; 0: most says */
};

/* text: what --max-errors was given, or NULL, which is no limit; skips: whether --on-error is skip,
 * without which a limit has no meaning. EXIT_USAGE with detail. */
int error_limit_parse(const char *text, bool skips, struct error_limit *ret_limit, struct err *err);

#endif
