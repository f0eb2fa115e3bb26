/*
 * trace — records time spans per thread and formats them as a Chrome trace for Perfetto
 * (https://ui.perfetto.dev) and chrome://tracing.
 *
 *     trace_open(&trace, err);
 *     track = trace_add_track(trace, "decode", 3);             // one per thread, before it works
 *     trace_start(trace);
 *     uint64_t began_ns = trace_begin(track);                  // 0 while the trace is stopped
 *     ...
 *     trace_end(track, "decode", began_ns);
 *     trace_stop(trace);
 *     trace_format_track(trace, i, process, origin_ns, &text); // for each track
 *
 * Only spans that begin between start and stop are kept. Without a track a span costs one branch;
 * while the trace is stopped, also a relaxed load. A track allocates its memory when added and
 * takes no locks later; once full, it only counts lost spans.
 *
 * Threads: each track has one owner, which begins and ends its spans; all other functions may be
 * called from any thread. Formatting includes all spans that ended before it began.
 */
#ifndef MILLRACE_BASE_OS_TRACE_H
#define MILLRACE_BASE_OS_TRACE_H

#include "base/err.h"
#include "base/str.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    TRACE_TRACKS_MAX = 640,
    TRACE_SPANS_MAX = 1 << 15, /* per track */
    TRACE_NAME_BYTES = 32,
};

struct trace;

enum trace_kind {
    TRACE_NESTED, /* inside the spans still open */
    TRACE_ASYNC,  /* work outside this thread; may overlap other spans */
};

struct trace_span {
    const char *name; /* static, like key; neither needs escaping */
    const char *key;  /* names value; NULL: none */
    uint64_t value, began_ns, ended_ns;
    enum trace_kind kind;
};

struct trace_track {
    const atomic_bool *is_recording;
    char name[TRACE_NAME_BYTES];
    unsigned number;
    atomic_uint spans_count; /* spans with a lower index are immutable */
    atomic_ullong lost_count;
    struct trace_span spans[TRACE_SPANS_MAX];
};

/* The caller owns the trace. -ENOMEM. */
int trace_open(struct trace **ret_trace, struct err *err);
/* Its tracks must no longer be in use. trace may be NULL. */
void trace_close(struct trace *trace);
/* Adds a track for one thread; number distinguishes threads with the same name. Copies name,
 * truncated if too long. The trace owns the track. Returns NULL (an untraced thread) if trace is
 * NULL, memory runs out or TRACE_TRACKS_MAX is reached. */
struct trace_track *trace_add_track(struct trace *trace, const char *name, unsigned number);
void trace_start(struct trace *trace);
void trace_stop(struct trace *trace);

/* Keeps the span, or counts it as lost if the track is full. */
void trace_add(struct trace_track *track, const struct trace_span *span);
uint64_t trace_now_ns(void);

static inline uint64_t trace_begin(const struct trace_track *track)
{
    return track && atomic_load_explicit(track->is_recording, memory_order_relaxed) ? trace_now_ns()
                                                                                    : 0;
}

static inline void trace_end_with_value(struct trace_track *track, const char *name,
                                        uint64_t began_ns, const char *key, uint64_t value)
{
    if (began_ns > 0)
        trace_add(track,
                  &(struct trace_span){name, key, value, began_ns, trace_now_ns(), TRACE_NESTED});
}

static inline void trace_end(struct trace_track *track, const char *name, uint64_t began_ns)
{
    trace_end_with_value(track, name, began_ns, NULL, 0);
}

/* For work done outside this thread on its behalf. */
static inline void trace_end_async(struct trace_track *track, const char *name, uint64_t began_ns,
                                   const char *key, uint64_t value)
{
    if (began_ns > 0)
        trace_add(track,
                  &(struct trace_span){name, key, value, began_ns, trace_now_ns(), TRACE_ASYNC});
}

/* Nanoseconds since 1970; 0: the trace was never started. */
uint64_t trace_started_ns(const struct trace *trace);
unsigned trace_tracks_count(const struct trace *trace);

/* Append the spans since the last start to out: call trace_format_begin, then format each process
 * and its tracks, then call trace_format_end. Times are relative to origin_ns (since 1970), so
 * traces of several machines align as closely as their clocks agree. */
void trace_format_begin(struct str *out);
void trace_format_process(unsigned process, const char *name, struct str *out);
void trace_format_track(const struct trace *trace, unsigned track, unsigned process,
                        uint64_t origin_ns, struct str *out);
void trace_format_end(struct str *out);

#endif
