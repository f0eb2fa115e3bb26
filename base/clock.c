/*
 * clock — see clock.h.
 */
#include "base/clock.h"

static uint64_t read_clock(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now); /* cannot fail for these clocks */
    return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t clock_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

struct timespec clock_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / CLOCK_NS_PER_S),
                             .tv_nsec = (long)(ns % CLOCK_NS_PER_S)};
}

void clock_sleep_ns(uint64_t ns)
{
    struct timespec time = clock_timespec(ns);
    nanosleep(&time, NULL);
}

const char *clock_format_iso(uint64_t wall_ns, char *text)
{
    time_t seconds = (time_t)(wall_ns / CLOCK_NS_PER_S);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    strftime(text, CLOCK_ISO_BYTES, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}
