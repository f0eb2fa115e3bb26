/*
 * clock — time as nanoseconds in a uint64_t.
 */
#ifndef MILLRACE_BASE_CLOCK_H
#define MILLRACE_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_S UINT64_C(1000000000)

uint64_t clock_now_ns(void);  /* monotonic */
uint64_t clock_wall_ns(void); /* since 1970-01-01 UTC */

void clock_sleep_ns(uint64_t ns); /* shorter if a signal arrives */
struct timespec clock_timespec(uint64_t ns);

static inline double clock_seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

enum { CLOCK_ISO_BYTES = 21 };
/* Writes "2026-11-21T07:33:08Z" into text (CLOCK_ISO_BYTES) and returns text. */
const char *clock_format_iso(uint64_t wall_ns, char *text);

#endif
