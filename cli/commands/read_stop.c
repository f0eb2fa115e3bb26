#include "cli/commands/read_stop.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

enum { STEP_END_WAIT_MS_MAX = 1000, STEP_END_POLL_MS = 5 };

static bool wait_for_step_end(const struct read_stop *stop, struct loader *loader)
{
    uint64_t until_ns = stop->requested_ns + STEP_END_WAIT_MS_MAX * (CLOCK_NS_PER_S / 1000);
    bool is_ready;
    while (!(is_ready = loader_ready(loader)) && clock_now_ns() < until_ns)
        poll(NULL, 0, STEP_END_POLL_MS);
    return is_ready && clock_now_ns() < until_ns;
}

/* Advises resuming after the last complete step; that repeats repeated_count samples. */
static int set_stop_error(const struct read_stop *stop, const struct cursor *cursor,
                          uint64_t repeated_count, struct err *err)
{
    char count[32] = "", repeats[64] = "";
    err_set(err, -EINTR, "stopped on request");
    if (stop->count)
        snprintf(count, sizeof count, " --count %" PRIu64,
                 stop->count - (cursor->position - stop->start));
    if (repeated_count)
        snprintf(repeats, sizeof repeats, "%s, which repeats %" PRIu64 " samples",
                 stop->repeat_option, repeated_count);
    err_advise(err, "to read the rest, add --start %" PRIu64 "%s%s", cursor->position, count,
               repeats);
    return -EINTR;
}

int read_stop_poll(struct read_stop *stop, struct loader *loader, uint64_t samples_count,
                   struct err *err)
{
    if (stop->is_step_complete)
        stop->samples_in_complete_steps = samples_count;
    if (!atomic_load(stop->stop_flag))
        return 0;
    if (!stop->requested_ns)
        stop->requested_ns = clock_now_ns();
    struct cursor cursor = loader_cursor(loader);
    bool has_read_all = cursor.epoch != stop->epoch ||
                        cursor.position == loader_shape(loader).samples ||
                        (stop->count && cursor.position - stop->start == stop->count);
    if (stop->is_step_complete ? has_read_all : wait_for_step_end(stop, loader))
        return 0;
    return set_stop_error(stop, &cursor, samples_count - stop->samples_in_complete_steps, err);
}
