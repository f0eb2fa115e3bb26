/*
 * trace — see trace.h.
 */
#include "base/os/trace.h"

#include "base/clock.h"
#include "base/json/jsonx_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct trace {
    atomic_bool is_recording;
    atomic_ullong started_ns;      /* monotonic */
    atomic_ullong wall_started_ns; /* the same moment, ns since 1970 */
    pthread_mutex_t mutex;         /* serializes trace_add_track */
    atomic_uint tracks_count;      /* tracks with a lower index are complete */
    struct trace_track *tracks[TRACE_TRACKS_MAX];
};

int trace_open(struct trace **ret_trace, struct err *err)
{
    struct trace *trace = calloc(1, sizeof *trace);
    if (!trace)
        return err_set(err, -ENOMEM, "out of memory for a trace");
    pthread_mutex_init(&trace->mutex, NULL);
    *ret_trace = trace;
    return 0;
}

void trace_close(struct trace *trace)
{
    if (!trace)
        return;
    for (unsigned i = 0; i < trace_tracks_count(trace); i++)
        free(trace->tracks[i]);
    pthread_mutex_destroy(&trace->mutex);
    free(trace);
}

struct trace_track *trace_add_track(struct trace *trace, const char *name, unsigned number)
{
    struct trace_track *track =
        trace ? calloc(1, sizeof *track) : NULL; /* pages are allocated on first use */
    if (!track)
        return NULL;
    track->is_recording = &trace->is_recording;
    track->number = number;
    snprintf(track->name, sizeof track->name, "%s", name);
    pthread_mutex_lock(&trace->mutex);
    unsigned count = atomic_load_explicit(&trace->tracks_count, memory_order_relaxed);
    bool has_room = count < TRACE_TRACKS_MAX;
    if (has_room) {
        trace->tracks[count] = track;
        atomic_store_explicit(&trace->tracks_count, count + 1, memory_order_release);
    }
    pthread_mutex_unlock(&trace->mutex);
    if (has_room)
        return track;
    free(track);
    return NULL;
}

void trace_start(struct trace *trace)
{
    atomic_store(&trace->started_ns, clock_now_ns());
    atomic_store(&trace->wall_started_ns, clock_wall_ns());
    atomic_store(&trace->is_recording, true);
}

void trace_stop(struct trace *trace)
{
    atomic_store(&trace->is_recording, false);
}

uint64_t trace_started_ns(const struct trace *trace)
{
    return atomic_load(&trace->wall_started_ns);
}

unsigned trace_tracks_count(const struct trace *trace)
{
    return atomic_load_explicit(&trace->tracks_count, memory_order_acquire);
}

uint64_t trace_now_ns(void)
{
    return clock_now_ns();
}

void trace_add(struct trace_track *track, const struct trace_span *span)
{
    unsigned count = atomic_load_explicit(&track->spans_count, memory_order_relaxed);
    if (count == TRACE_SPANS_MAX) {
        atomic_fetch_add_explicit(&track->lost_count, 1, memory_order_relaxed);
        return;
    }
    track->spans[count] = *span;
    atomic_store_explicit(&track->spans_count, count + 1, memory_order_release);
}

/* Begins with a metadata event, so that all others can start with a comma. */
void trace_format_begin(struct str *out)
{
    str_add_text(
        out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
             "{\"ph\":\"M\",\"name\":\"trace_config\",\"pid\":0,\"args\":{\"by\":\"millrace\"}}");
}

void trace_format_end(struct str *out)
{
    str_add_text(out, "\n]}\n");
}

static void add_metadata(struct str *out, const char *what, unsigned process, unsigned thread,
                         const char *name, unsigned sort_index)
{
    struct jsonx_writer json = {.out = out};
    str_add_text(out, ",\n");
    jsonx_begin_object(&json, NULL);
    jsonx_write_string(&json, "ph", "M");
    jsonx_write_string(&json, "name", what);
    jsonx_write_u64(&json, "pid", process);
    jsonx_write_u64(&json, "tid", thread);
    jsonx_begin_object(&json, "args");
    if (name)
        jsonx_write_string(&json, "name", name);
    else
        jsonx_write_u64(&json, "sort_index", sort_index);
    jsonx_end_object(&json);
    jsonx_end_object(&json);
}

void trace_format_process(unsigned process, const char *name, struct str *out)
{
    add_metadata(out, "process_name", process, 0, name, 0);
    add_metadata(out, "process_sort_index", process, 0, NULL, process);
}

/* "123.456": microseconds. A double would lose the nanoseconds after some days. */
static void add_time(struct str *out, const char *key, int64_t ns)
{
    uint64_t size = (uint64_t)(ns < 0 ? -ns : ns);
    str_add_format(out, ",\"%s\":%s%" PRIu64 ".%03u", key, ns < 0 ? "-" : "", size / 1000,
                   (unsigned)(size % 1000));
}

struct track_location {
    unsigned process, thread;
    int64_t shift_ns; /* from the process clock to the trace clock */
};

static void add_event(struct str *out, const char *phase, const struct trace_span *span,
                      const struct track_location *location, uint64_t at_ns)
{
    str_add_format(out,
                   ",\n{\"ph\":\"%s\",\"name\":\"%s\",\"cat\":\"millrace\",\"pid\":%u,\"tid\":%u",
                   phase, span->name, location->process, location->thread);
    add_time(out, "ts", (int64_t)at_ns + location->shift_ns);
}

static void add_args(struct str *out, const struct trace_span *span)
{
    if (span->key)
        str_add_format(out, ",\"args\":{\"%s\":%" PRIu64 "}", span->key, span->value);
}

static void add_span(struct str *out, const struct trace_span *span,
                     const struct track_location *location, unsigned number)
{
    if (span->kind == TRACE_NESTED) {
        add_event(out, "X", span, location, span->began_ns);
        add_time(out, "dur", (int64_t)(span->ended_ns - span->began_ns));
        add_args(out, span);
        str_add_text(out, "}");
        return;
    }
    add_event(out, "b", span, location, span->began_ns);
    str_add_format(out, ",\"id\":\"%u.%u.%u\"", location->process, location->thread, number);
    add_args(out, span);
    str_add_text(out, "}");
    add_event(out, "e", span, location, span->ended_ns);
    str_add_format(out, ",\"id\":\"%u.%u.%u\"}", location->process, location->thread, number);
}

void trace_format_track(const struct trace *trace, unsigned index, unsigned process,
                        uint64_t origin_ns, struct str *out)
{
    const struct trace_track *track = trace->tracks[index];
    uint64_t started_ns = atomic_load(&trace->started_ns);
    const struct track_location location = {
        process, index + 1, (int64_t)(trace_started_ns(trace) - origin_ns) - (int64_t)started_ns};
    unsigned count = atomic_load_explicit(&track->spans_count, memory_order_acquire);
    unsigned long long lost = atomic_load_explicit(&track->lost_count, memory_order_relaxed);
    char name[TRACE_NAME_BYTES + 64], left_out[48] = "";
    if (lost > 0)
        snprintf(left_out, sizeof left_out, " (%llu spans left out)", lost);
    snprintf(name, sizeof name, "%s %u%s", track->name, track->number, left_out);
    add_metadata(out, "thread_name", process, location.thread, name, 0);
    add_metadata(out, "thread_sort_index", process, location.thread, NULL, location.thread);
    for (unsigned i = 0; i < count; i++)
        if (track->spans[i].began_ns >= started_ns)
            add_span(out, &track->spans[i], &location, i);
}
