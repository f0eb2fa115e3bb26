/*
 * error_limit — the options `--on-error stop|skip` and `--max-errors N|P%`.
 */
#ifndef MILLRACE_CLI_CORE_ERROR_LIMIT_H
#define MILLRACE_CLI_CORE_ERROR_LIMIT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* The number of skipped items beyond which the command fails. */
struct error_limit {
    int64_t most;    /* -1: use fraction; no limit if that is 0 */
    double fraction; /* of all items */
};

/* text: --max-errors; NULL: no limit. skips: --on-error skip, which a limit requires. EXIT_USAGE
 * with detail. */
int error_limit_parse(const char *text, bool skips, struct error_limit *ret_limit, struct err *err);

#endif
