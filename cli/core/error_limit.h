/*
 * error_limit — the options `--on-error stop|skip` and `--max-errors N|P%`.
 */
#ifndef MILLRACE_CLI_CORE_ERROR_LIMIT_H
#define MILLRACE_CLI_CORE_ERROR_LIMIT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* How many items may be skipped before the command fails. */
struct error_limit {
    int64_t count_max;   /* -1: use fraction_max */
    double fraction_max; /* of all items; 0: no limit */
};

/* text: the value of --max-errors; NULL: no limit. skips_errors: --on-error skip was given; a limit
 * requires it. EXIT_USAGE with detail. */
int error_limit_parse(const char *text, bool skips_errors, struct error_limit *ret_limit,
                      struct err *err);
/* Checks how many of an epoch's samples were skipped. path: of the dataset, for the message; NULL:
 * of several. -EBADMSG with detail: too many. */
int error_limit_check(const struct error_limit *limit, uint64_t skipped, uint64_t samples,
                      const char *path, struct err *err);

#endif
