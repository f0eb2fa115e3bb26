/*
 * trace — spans recorded by several threads between start and stop, and the formatted text.
 */
#include "base/os/trace.h"
#include "base/clock.h"
#include "base/json/jsonx.h"
#include "base/os/thread.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct trace *open_trace(void)
{
    struct trace *trace;
    struct err err;
    assert_ok(trace_open(&trace, &err), &err);
    return trace;
}

/* The events of all tracks of a trace, formatted as process 3. */
static struct json_t *format_events(const struct trace *trace, struct json_t **ret_root)
{
    struct str text = {0};
    struct err err;
    trace_format_begin(&text);
    trace_format_process(3, "a \"process\"", &text);
    for (unsigned i = 0; i < trace_tracks_count(trace); i++)
        trace_format_track(trace, i, 3, trace_started_ns(trace), &text);
    trace_format_end(&text);
    assert_int_equal(str_status(&text), 0);
    assert_ok(jsonx_parse(text.data, text.bytes, "trace", 0, ret_root, &err), &err);
    str_deinit(&text);
    return jsonx_get(*ret_root, "traceEvents");
}

static bool has_text(const struct json_t *event, const char *key, const char *expected)
{
    const char *text;
    return jsonx_text(jsonx_get(event, key), &text) == 0 && strcmp(text, expected) == 0;
}

static size_t count_events(const struct json_t *events, const char *phase, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < jsonx_count(events); i++)
        count += has_text(jsonx_at(events, i), "ph", phase) &&
                 has_text(jsonx_at(events, i), "name", name);
    return count;
}

static void spans_are_recorded_only_between_start_and_stop(void **state)
{
    (void)state;
    struct trace *trace = open_trace();
    struct trace_track *track = trace_add_track(trace, "worker", 2);
    struct json_t *root;
    assert_int_equal(trace_begin(track), 0);
    trace_end(track, "before", trace_begin(track));
    trace_start(trace);
    uint64_t began_ns = trace_begin(track);
    assert_true(began_ns > 0);
    trace_end_with_value(track, "within", trace_begin(track), "items", 7);
    trace_end_async(track, "read", began_ns, "bytes", 9);
    trace_stop(trace);
    trace_end(track, "over the end", began_ns);
    trace_end(track, "after", trace_begin(track));
    struct json_t *events = format_events(trace, &root);
    assert_int_equal(count_events(events, "X", "before") + count_events(events, "X", "after"), 0);
    assert_int_equal(count_events(events, "X", "within"), 1);
    assert_int_equal(count_events(events, "X", "over the end"), 1);
    assert_int_equal(count_events(events, "b", "read"), 1);
    assert_int_equal(count_events(events, "e", "read"), 1);
    assert_int_equal(count_events(events, "M", "thread_name"), 1);
    assert_int_equal(count_events(events, "M", "process_name"), 1);
    jsonx_free(root);
    trace_close(trace);
}

static void a_restarted_trace_forgets_earlier_spans(void **state)
{
    (void)state;
    struct trace *trace = open_trace();
    struct trace_track *track = trace_add_track(trace, "worker", 0);
    struct json_t *root;
    trace_start(trace);
    uint64_t began_ns = trace_begin(track);
    trace_end(track, "first", began_ns);
    trace_stop(trace);
    while (clock_now_ns() == began_ns)
        continue;
    trace_start(trace);
    trace_end(track, "second", trace_begin(track));
    trace_stop(trace);
    struct json_t *events = format_events(trace, &root);
    assert_int_equal(count_events(events, "X", "first"), 0);
    assert_int_equal(count_events(events, "X", "second"), 1);
    jsonx_free(root);
    trace_close(trace);
}

static void without_a_trace_nothing_is_recorded(void **state)
{
    (void)state;
    assert_null(trace_add_track(NULL, "worker", 0));
    assert_int_equal(trace_begin(NULL), 0);
    trace_end(NULL, "nothing", trace_begin(NULL));
    trace_close(NULL);
}

static void a_full_track_counts_dropped_spans(void **state)
{
    (void)state;
    enum { MORE = 5 };
    struct trace *trace = open_trace();
    struct trace_track *track = trace_add_track(trace, "worker", 0);
    struct json_t *root;
    trace_start(trace);
    for (int i = 0; i < TRACE_SPANS_MAX + MORE; i++)
        trace_end(track, "span", trace_begin(track));
    struct json_t *events = format_events(trace, &root);
    size_t named = 0;
    assert_int_equal(count_events(events, "X", "span"), TRACE_SPANS_MAX);
    for (size_t i = 0; i < jsonx_count(events); i++)
        named +=
            has_text(jsonx_get(jsonx_at(events, i), "args"), "name", "worker 0 (5 spans left out)");
    assert_int_equal(named, 1);
    jsonx_free(root);
    trace_close(trace);
}

static void the_number_of_tracks_is_limited(void **state)
{
    (void)state;
    struct trace *trace = open_trace();
    for (unsigned i = 0; i < TRACE_TRACKS_MAX; i++)
        assert_non_null(trace_add_track(trace, "worker", i));
    assert_null(trace_add_track(trace, "worker", TRACE_TRACKS_MAX));
    assert_int_equal(trace_tracks_count(trace), TRACE_TRACKS_MAX);
    trace_close(trace);
}

enum { THREADS = 4, ROUNDS = 2000 };

struct worker {
    struct trace *trace;
    struct trace_track *track;
    unsigned number;
    pthread_t thread;
};

static void *record_spans(void *argument)
{
    struct worker *worker = argument;
    worker->track = trace_add_track(worker->trace, "worker", worker->number);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t outer_ns = trace_begin(worker->track);
        trace_end_with_value(worker->track, "inner", trace_begin(worker->track), "i", (uint64_t)i);
        trace_end(worker->track, "outer", outer_ns);
    }
    return NULL;
}

/* Formatting, starting and stopping run concurrently with the threads; each text is complete. */
static void threads_can_record_while_a_trace_is_formatted(void **state)
{
    (void)state;
    struct trace *trace = open_trace();
    struct worker workers[THREADS];
    struct json_t *root;
    trace_start(trace);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.trace = trace, .number = i};
        assert_int_equal(thread_start(&workers[i].thread, record_spans, &workers[i]), 0);
    }
    for (int i = 0; i < 5; i++) {
        trace_stop(trace);
        trace_start(trace);
        format_events(trace, &root);
        jsonx_free(root);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    assert_int_equal(trace_tracks_count(trace), THREADS);
    trace_close(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_recorded_only_between_start_and_stop),
        cmocka_unit_test(a_restarted_trace_forgets_earlier_spans),
        cmocka_unit_test(without_a_trace_nothing_is_recorded),
        cmocka_unit_test(a_full_track_counts_dropped_spans),
        cmocka_unit_test(the_number_of_tracks_is_limited),
        cmocka_unit_test(threads_can_record_while_a_trace_is_formatted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
