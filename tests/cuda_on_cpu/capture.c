/*
 * capture — see capture.h.
 */
#include "tests/cuda_on_cpu/capture.h"

#include "tests/cuda_on_cpu/order_choice.h"
#include "tests/cuda_on_cpu/queue_stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct graph_node {
    struct queue_work work;
    struct node_set dependencies;
};

struct capture {
    struct capture *next; /* in the list of captures in progress */
    atomic_int references;
    cudaStream_t origin;
    enum cudaStreamCaptureMode mode;
    pthread_t thread;
    bool is_invalid, has_ended;
    struct graph_node *nodes;
    int count, capacity;
};

static void *abort_if_null(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static void node_set_add(struct node_set *set, int number)
{
    for (int i = 0; i < set->count; i++)
        if (set->numbers[i] == number)
            return;
    set->numbers =
        abort_if_null(realloc(set->numbers, (size_t)(set->count + 1) * sizeof set->numbers[0]));
    set->numbers[set->count++] = number;
}

void node_set_add_all(struct node_set *set, const struct node_set *more)
{
    for (int i = 0; i < more->count; i++)
        node_set_add(set, more->numbers[i]);
}

void node_set_clear(struct node_set *set)
{
    free(set->numbers);
    *set = (struct node_set){0};
}

struct capture *capture_begin(struct capture **captures, cudaStream_t origin,
                              enum cudaStreamCaptureMode mode)
{
    struct capture *capture = abort_if_null(calloc(1, sizeof *capture));
    capture->references = 1;
    capture->origin = origin;
    capture->mode = mode;
    capture->thread = pthread_self();
    capture->next = *captures;
    *captures = capture;
    return capture;
}

void capture_add(struct capture *capture, struct node_set *last, struct queue_work work)
{
    if (capture->count == capture->capacity) {
        capture->capacity = capture->capacity ? 2 * capture->capacity : 64;
        capture->nodes = abort_if_null(
            realloc(capture->nodes, (size_t)capture->capacity * sizeof capture->nodes[0]));
    }
    capture->nodes[capture->count] = (struct graph_node){work, *last};
    *last = (struct node_set){0};
    node_set_add(last, capture->count++);
}

bool captures_forbid_unsafe_calls(struct capture *captures)
{
    bool forbidden = false;
    for (struct capture *c = captures; c; c = c->next)
        if (c->mode == cudaStreamCaptureModeGlobal ||
            (c->mode == cudaStreamCaptureModeThreadLocal &&
             pthread_equal(c->thread, pthread_self())))
            c->is_invalid = forbidden = true;
    return forbidden;
}

void capture_invalidate_all(struct capture *captures)
{
    for (struct capture *c = captures; c; c = c->next)
        c->is_invalid = true;
}

/* Marks `last` and all its dependencies in seen. */
static void mark_dependencies(const struct capture *capture, const struct node_set *last,
                              bool *seen)
{
    for (int i = 0; i < last->count; i++)
        seen[last->numbers[i]] = true;
    /* the dependencies of a node have smaller numbers */
    for (int n = capture->count - 1; n >= 0; n--)
        for (int i = 0; seen[n] && i < capture->nodes[n].dependencies.count; i++)
            seen[capture->nodes[n].dependencies.numbers[i]] = true;
}

cudaError_t capture_end(struct capture **captures, struct capture *capture, cudaStream_t origin,
                        cudaStream_t streams)
{
    bool joined = true, *seen = abort_if_null(calloc((size_t)capture->count + 1, sizeof *seen));
    struct capture **link = captures;
    if (origin != capture->origin) {
        free(seen);
        return cudaErrorStreamCaptureUnmatched;
    }
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    capture->has_ended = true;
    mark_dependencies(capture, &origin->newest_nodes, seen);
    for (cudaStream_t s = streams; s; s = s->next)
        for (int i = 0; s->capture == capture && i < s->newest_nodes.count; i++)
            joined = joined && seen[s->newest_nodes.numbers[i]];
    free(seen);
    return capture->is_invalid ? cudaErrorStreamCaptureInvalidated
           : joined            ? cudaSuccess
                               : cudaErrorStreamCaptureUnjoined;
}

bool capture_has_ended(const struct capture *capture)
{
    return capture->has_ended;
}

struct capture *capture_retain(struct capture *capture)
{
    if (capture)
        capture->references++;
    return capture;
}

void capture_release(struct capture *capture)
{
    if (!capture || --capture->references > 0)
        return;
    for (int n = 0; n < capture->count; n++) {
        struct graph_node *node = &capture->nodes[n];
        if (node->work.destroy)
            node->work.destroy(node->work.data);
        node_set_clear(&node->dependencies);
    }
    free(capture->nodes);
    free(capture);
}

/* Chooses one of `count` runnable nodes: the first, the last, or any, depending on the order. */
static int pick_node(int count)
{
    switch (order_stream_policy()) {
    case STREAMS_AT_ONCE:
        return 0;
    case STREAMS_LATE:
        return count - 1;
    default:
        return (int)order_random((uint64_t)count);
    }
}

static bool may_run(const struct graph_node *node, const bool *done)
{
    for (int i = 0; i < node->dependencies.count; i++)
        if (!done[node->dependencies.numbers[i]])
            return false;
    return true;
}

void capture_run(const struct capture *capture)
{
    bool *done = abort_if_null(calloc((size_t)capture->count + 1, sizeof *done));
    int *ready = abort_if_null(malloc(((size_t)capture->count + 1) * sizeof *ready));
    for (int left = capture->count; left > 0; left--) {
        int count = 0;
        for (int n = 0; n < capture->count; n++)
            if (!done[n] && may_run(&capture->nodes[n], done))
                ready[count++] = n;
        int n = ready[pick_node(count)];
        capture->nodes[n].work.run(capture->nodes[n].work.data);
        done[n] = true;
    }
    free(done);
    free(ready);
}
