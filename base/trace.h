/*
 * trace — what the threads of a program did when: spans of time, which each thread keeps in memory
 * of its own, as a Chrome trace that Perfetto (https://ui.perfetto.dev) and chrome://tracing open.
 *
 *     trace_open(&trace, err);
 *     track = trace_add_track(trace, "decode", 3);             // of a thread, before it works
 *     trace_start(trace);
 *     uint64_t began_ns = trace_begin(track);                  // 0 while nothing is kept
 *     ...
 *     trace_end(track, "decode", began_ns);
 *     trace_stop(trace);
 *     trace_format_track(trace, i, process, origin_ns, &text); // for each track
 *
 * Spans are kept that begin between start and stop. Without a track they cost a branch, before
 * start and after stop a relaxed load more. A track's memory is taken when it is added, and no lock
 * is asked for afterwards; when it is full, later spans are only counted.
 *
 * Threads: each track has one owner, who begins and ends; all else may be called by any thread.
 * What a track's owner ended before is seen by who formats it.
 */
#ifndef MILLRACE_BASE_TRACE_H
#define MILLRACE_BASE_TRACE_H

#include "base/err.h"
#include "base/str.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    TRACE_TRACKS_MAX = 640,
    TRACE_SPANS_MAX = 1 << 15, /* of a track */
    TRACE_NAME_BYTES = 32,
};

struct trace;

/* How it lies among others of its track. */
enum trace_kind {
    TRACE_NESTED, /* within those that began before and did not end */
    TRACE_FLIGHT, /* any number at once: what is in progress elsewhere */
};

struct trace_span {
    const char *name; /* static, as is key; neither needs escapes */
    const char *key;  /* of value; NULL: none */
    uint64_t value, began_ns, ended_ns;
    enum trace_kind kind;
};

struct trace_track {
    const atomic_bool *is_on;
    char name[TRACE_NAME_BYTES];
    unsigned number;
    atomic_uint spans_count; /* those before it do not change any more */
    atomic_ullong lost_count;
    struct trace_span spans[TRACE_SPANS_MAX];
};

/* Gives it. -ENOMEM. */
int trace_open(struct trace **ret_trace, struct err *err);
/* No thread may use its tracks any more. NULL is fine. */
void trace_close(struct trace *trace);
/* A thread's, the number-th of its kind; name is copied, and cut. NULL where trace is NULL, or has
 * no memory for it: then nothing of that thread is kept. It lives as long as the trace. */
struct trace_track *trace_add_track(struct trace *trace, const char *name, unsigned number);
void trace_start(struct trace *trace);
void trace_stop(struct trace *trace);

/* Keeps the span, or counts it. */
void trace_add(struct trace_track *track, const struct trace_span *span);
uint64_t trace_now_ns(void);

static inline uint64_t trace_begin(const struct trace_track *track)
{
    return track && atomic_load_explicit(track->is_on, memory_order_relaxed) ? trace_now_ns() : 0;
}

static inline void trace_end_with(struct trace_track *track, const char *name, uint64_t began_ns,
                                  const char *key, uint64_t value)
{
    if (began_ns > 0)
        trace_add(track,
                  &(struct trace_span){name, key, value, began_ns, trace_now_ns(), TRACE_NESTED});
}

static inline void trace_end(struct trace_track *track, const char *name, uint64_t began_ns)
{
    trace_end_with(track, name, began_ns, NULL, 0);
}

/* Of what another did for this thread. */
static inline void trace_end_flight(struct trace_track *track, const char *name, uint64_t began_ns,
                                    const char *key, uint64_t value)
{
    if (began_ns > 0)
        trace_add(track,
                  &(struct trace_span){name, key, value, began_ns, trace_now_ns(), TRACE_FLIGHT});
}

/* When trace_start was last called, nanoseconds since 1970; 0: never. */
uint64_t trace_started_ns(const struct trace *trace);
unsigned trace_tracks_count(const struct trace *trace);

/*
 * The text of a trace, of spans since it was last started: trace_format_begin, then of each process
 * its name and its tracks, then trace_format_end. Each adds to out.
 *
 * Times are counted from origin_ns (since 1970), so that processes of several machines lie beside
 * each other as far as their clocks agree.
 */
void trace_format_begin(struct str *out);
void trace_format_process(unsigned process, const char *name, struct str *out);
void trace_format_track(const struct trace *trace, unsigned track, unsigned process,
                        uint64_t origin_ns, struct str *out);
void trace_format_end(struct str *out);

#endif
