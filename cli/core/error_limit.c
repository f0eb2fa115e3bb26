#include "cli/core/error_limit.h"

#include "cli/core/exit_status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const double COUNT_MAX = 1e15; /* doubles represent integers up to this exactly */

/* Parses "12" or "1.5%": digits with at most one point, stricter than strtod. */
static bool parse_count_or_percent(const char *text, double *ret_value, bool *ret_is_percent)
{
    static const char digits[] = "0123456789";
    size_t whole_digits = strspn(text, digits);
    const char *end = text + whole_digits;
    if (*end == '.')
        end += 1 + strspn(end + 1, digits);
    *ret_is_percent = *end == '%';
    if (whole_digits == 0 || end[*ret_is_percent] != '\0')
        return false;
    *ret_value = strtod(text, NULL); /* infinite on overflow */
    return *ret_is_percent ? *ret_value <= 100
                           : *ret_value <= COUNT_MAX && *ret_value == (double)(int64_t)*ret_value;
}

int error_limit_parse(const char *text, bool skips_errors, struct error_limit *ret_limit,
                      struct err *err)
{
    struct error_limit limit = {.count_max = -1};
    if (!text) {
        *ret_limit = limit;
        return 0;
    }
    double value;
    bool is_percent;
    if (!parse_count_or_percent(text, &value, &is_percent)) {
        err_set(err, -EINVAL, "--max-errors has an invalid value");
        err_expected(err, "a whole number, or a percentage such as 1%%");
        err_found(err, "\"%s\"", text);
        return EXIT_USAGE;
    }
    if (!skips_errors) {
        err_set(err, -EINVAL, "--max-errors needs --on-error skip");
        err_advise(err, "add --on-error skip");
        return EXIT_USAGE;
    }
    if (is_percent && value > 0)
        limit.fraction_max = value / 100;
    else
        limit.count_max = (int64_t)value;
    *ret_limit = limit;
    return 0;
}

int error_limit_check(const struct error_limit *limit, uint64_t skipped, uint64_t samples,
                      const char *path, struct err *err)
{
    bool exceeds_count = limit->count_max >= 0 && skipped > (uint64_t)limit->count_max;
    if (!exceeds_count &&
        !(limit->fraction_max > 0 && (double)skipped > limit->fraction_max * (double)samples))
        return 0;
    err_set(err, -EBADMSG, "too many samples cannot be used");
    if (path)
        err_at(err, path, ERR_NO_OFFSET);
    if (exceeds_count)
        err_expected(err, "at most %" PRId64, limit->count_max);
    else
        err_expected(err, "at most %g %% of %" PRIu64, limit->fraction_max * 100, samples);
    err_found(err, "%" PRIu64, skipped);
    err_advise(err, "run `millrace verify --decode` to list all bad samples");
    return -EBADMSG;
}
