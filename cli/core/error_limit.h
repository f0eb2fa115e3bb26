/*
 * error_limit — how many items a verb may skip: its options `--on-error stop|skip` and
 * `--max-errors N|P%`.
 */
#ifndef MILLRACE_CLI_CORE_ERROR_LIMIT_H
#define MILLRACE_CLI_CORE_ERROR_LIMIT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* The work fails when more items than this are skipped. By value. */
struct error_limit {
    int64_t most;    /* -1: fraction applies if not 0; otherwise no limit */
    double fraction; /* of all items; 0: not used */
};

/* text: the value of --max-errors; NULL: no limit. skips: --on-error is skip, which a limit
 * requires. EXIT_USAGE with detail. */
int error_limit_parse(const char *text, bool skips, struct error_limit *ret_limit, struct err *err);

#endif
