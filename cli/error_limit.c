/*
 * error_limit — see error_limit.h.
 */
#include "cli/error_limit.h"

#include "cli/verb.h"

#include <errno.h>
#include <stdlib.h>

int error_limit_parse(const char *text, bool skips, struct error_limit *ret_limit, struct err *err)
{
    struct error_limit limit = {.most = -1};
    if (!text) {
        *ret_limit = limit;
        return 0;
    }
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    bool percent = *end == '%' && end[1] == '\0';
    if (end == text || errno || value < 0 || value > 1e15 || (*end && !percent) || (percent && value > 100) ||
        (!percent && value != (double)(int64_t)value)) {
        err_set(err, -EINVAL, "--max-errors does not take this value");
        err_expected(err, "a whole number, or a percentage as 1%%");
        err_found(err, "\"%s\"", text);
        return EXIT_USAGE;
    }
    if (!skips) {
        err_set(err, -EINVAL, "--max-errors counts what is skipped");
        err_advise(err, "add --on-error skip");
        return EXIT_USAGE;
    }
    if (percent && value > 0)
        limit.fraction = value / 100;
    else
        limit.most = (int64_t)value;
    *ret_limit = limit;
    return 0;
}
