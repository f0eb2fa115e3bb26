#include "cli/core/start_time.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SECONDS_DIGITS_MAX = 10 }; /* suffices until 2286; the nanoseconds fit in 64 bits */

int start_time_parse(const char *text, uint64_t wall_ns, uint64_t *ret_elapsed_ns, struct err *err)
{
    size_t digits = text ? strspn(text, "0123456789") : 0;
    if (text && (text[digits] || digits > SECONDS_DIGITS_MAX)) {
        err_set(err, -EINVAL, "%s in the environment is not a time", START_TIME_VARIABLE);
        err_expected(err, "seconds since 1970, as printed by `date +%%s`");
        err_found(err, "%.60s", text);
        return -EINVAL;
    }
    uint64_t began_ns = digits > 0 ? strtoull(text, NULL, 10) * CLOCK_NS_PER_S : wall_ns;
    *ret_elapsed_ns = wall_ns > began_ns ? wall_ns - began_ns : 0;
    return 0;
}
