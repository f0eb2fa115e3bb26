/*
 * queue — see queue.h.
 */
#include "tests/cuda_on_cpu/queue.h"

#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/order_choice.h"
#include "tests/cuda_on_cpu/queue_stream.h"
#include "tests/cuda_on_cpu/violation.h"

#include "base/clock.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

/* Guarded by lock. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t work_done;
    pthread_cond_t work_ready; /* for the shim's thread */
    struct CUstream_st default_stream, *streams;
    struct mark *default_mark; /* the end of the work queued on the default stream */
    struct queue_work *work;
    bool is_busy, is_started;
    cudaError_t requested_failure, device_status;
    struct capture *captures; /* captures in progress */
    struct shim_counts counts;
} queue = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .work_done = PTHREAD_COND_INITIALIZER,
    .work_ready = PTHREAD_COND_INITIALIZER,
    .streams = &queue.default_stream,
};

static void *abort_if_null(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static struct mark *mark_retain(struct mark *mark)
{
    if (mark)
        mark->references++;
    return mark;
}

static void mark_release(struct mark *mark)
{
    if (mark && --mark->references == 0)
        free(mark);
}

static struct CUstream_st *resolve(cudaStream_t stream)
{
    return stream == NULL || stream == cudaStreamLegacy ? &queue.default_stream : stream;
}

static void *run_requests(void *unused)
{
    pthread_mutex_lock(&queue.lock);
    for (;;) {
        while (!queue.work)
            pthread_cond_wait(&queue.work_ready, &queue.lock);
        struct queue_work work = *queue.work;
        pthread_mutex_unlock(&queue.lock);
        work.run(work.data);
        pthread_mutex_lock(&queue.lock);
        queue.work = NULL;
        pthread_cond_broadcast(&queue.work_done);
    }
    return unused;
}

static void run_work(struct queue_work *work)
{
    if (queue.requested_failure != cudaSuccess)
        queue.device_status = queue.requested_failure;
    if (queue.device_status != cudaSuccess)
        return;
    if (!queue.is_started) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run_requests, NULL) || pthread_detach(thread))
            abort();
        queue.is_started = true;
    }
    queue.work = work;
    pthread_cond_signal(&queue.work_ready);
    while (queue.work)
        pthread_cond_wait(&queue.work_done, &queue.lock);
}

static bool may_run(const struct CUstream_st *stream)
{
    return stream->first && !(stream->first->waits && !stream->first->mark->done);
}

static void stream_remove(struct CUstream_st *stream)
{
    struct CUstream_st **link = &queue.streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    mark_release(stream->awaited_default_mark);
    free(stream);
}

/* Runs the stream's first op, which must be runnable. Nothing else may be running. */
static void run_first(struct CUstream_st *stream)
{
    struct queued_op *op = stream->first;
    queue.is_busy = true;
    if (op->work.run) {
        run_work(&op->work);
        queue.counts.waiting--;
    }
    stream->first = op->next;
    if (!stream->first)
        stream->last = NULL;
    if (op->mark && !op->waits) {
        op->mark->done = true;
        op->mark->done_ns = clock_now_ns();
    }
    mark_release(op->mark);
    if (op->work.destroy)
        op->work.destroy(op->work.data);
    free(op);
    queue.is_busy = false;
    pthread_cond_broadcast(&queue.work_done);
    if (stream->closed && !stream->first)
        stream_remove(stream);
}

static struct CUstream_st *pick_stream(void)
{
    uint64_t count = 0;
    for (struct CUstream_st *s = queue.streams; s; s = s->next)
        count += may_run(s);
    if (count == 0)
        return NULL;
    uint64_t skip = order_stream_policy() == STREAMS_RANDOM ? order_random(count) : 0;
    for (struct CUstream_st *s = queue.streams; s; s = s->next)
        if (may_run(s) && skip-- == 0)
            return s;
    return NULL;
}

/* The stream that must run next so that `stream` can make progress; NULL: it waits for something
 * outside the queue. */
static struct CUstream_st *find_blocking_stream(struct CUstream_st *stream)
{
    while (stream && !may_run(stream))
        stream = stream->first->mark->stream;
    return stream;
}

/* The stream whose first op runs next so that `stream` makes progress; NULL if another thread or an
 * external operation must make progress first. */
static struct CUstream_st *next_stream_for(struct CUstream_st *stream)
{
    if (queue.is_busy)
        return NULL;
    return order_stream_policy() == STREAMS_LATE ? find_blocking_stream(stream) : pick_stream();
}

/* Takes over the caller's reference. */
static void wait_mark(struct mark *mark)
{
    memory_open();
    while (!mark->done) {
        struct CUstream_st *next = next_stream_for(mark->stream);
        if (next)
            run_first(next);
        else
            pthread_cond_wait(&queue.work_done, &queue.lock);
    }
    memory_close();
    mark_release(mark);
}

static void append(struct CUstream_st *stream, struct queued_op op)
{
    struct queued_op *new = abort_if_null(malloc(sizeof *new));
    *new = op;
    if (stream->last)
        stream->last->next = new;
    else
        stream->first = new;
    stream->last = new;
}

static struct mark *append_mark(struct CUstream_st *stream)
{
    struct mark *mark = abort_if_null(calloc(1, sizeof *mark));
    mark->references = 2; /* one for the op and one for the caller */
    mark->stream = stream;
    append(stream, (struct queued_op){.mark = mark});
    return mark;
}

static void append_wait(struct CUstream_st *stream, struct mark *mark)
{
    if (mark && !mark->done)
        append(stream, (struct queued_op){.mark = mark_retain(mark), .waits = true});
}

/* Called before and after queueing on the default stream or on a stream that synchronizes with
 * it. */
static void order_before(struct CUstream_st *stream)
{
    if (stream == &queue.default_stream) {
        for (struct CUstream_st *s = queue.streams; s; s = s->next)
            if (s != stream && s->blocking && s->first) {
                struct mark *mark = append_mark(s);
                append_wait(stream, mark);
                mark_release(mark);
            }
    } else if (stream->blocking && queue.default_mark &&
               stream->awaited_default_mark != queue.default_mark) {
        append_wait(stream, queue.default_mark);
        mark_release(stream->awaited_default_mark);
        stream->awaited_default_mark = mark_retain(queue.default_mark);
    }
}

static void order_after(struct CUstream_st *stream)
{
    if (stream != &queue.default_stream)
        return;
    mark_release(queue.default_mark);
    queue.default_mark = append_mark(stream);
}

/* Runs some queued work before any wait. */
static void run_ahead(void)
{
    enum stream_policy order = order_stream_policy();
    uint64_t count = order == STREAMS_AT_ONCE                          ? UINT64_MAX
                     : order == STREAMS_RANDOM && order_random(4) == 0 ? 1 + order_random(4)
                                                                       : 0;
    if (count == 0)
        return;
    memory_open();
    while (count-- > 0) {
        while (queue.is_busy)
            pthread_cond_wait(&queue.work_done, &queue.lock);
        struct CUstream_st *stream = pick_stream();
        if (!stream)
            break;
        run_first(stream);
    }
    memory_close();
}

static cudaError_t unlock(cudaError_t status)
{
    if (status == cudaSuccess)
        status = queue.device_status;
    pthread_mutex_unlock(&queue.lock);
    return status;
}

cudaError_t queue_add(cudaStream_t handle, struct queue_work work)
{
    pthread_mutex_lock(&queue.lock);
    struct CUstream_st *stream = resolve(handle);
    if (stream->capture) {
        capture_add(stream->capture, &stream->newest_nodes, work);
        return unlock(cudaSuccess);
    }
    if (stream == &queue.default_stream && queue.captures) {
        capture_invalidate_all(queue.captures);
        if (work.destroy)
            work.destroy(work.data);
        return unlock(cudaErrorStreamCaptureImplicit);
    }
    queue.counts.queued++;
    queue.counts.waiting++;
    order_before(stream);
    append(stream, (struct queued_op){.work = work});
    order_after(stream);
    run_ahead();
    return unlock(cudaSuccess);
}

/* True if a call that waits for or queries a stream must be refused: the stream is captured, or a
 * capture forbids this thread to make unsafe calls. capture: the stream's, or NULL. */
static bool is_refused(const struct capture *capture)
{
    if (capture)
        capture_invalidate_all(queue.captures);
    return capture || captures_forbid_unsafe_calls(queue.captures);
}

cudaError_t queue_check_allocation(void)
{
    pthread_mutex_lock(&queue.lock);
    queue.counts.allocations++;
    return unlock(is_refused(NULL) ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
}

static void wait_stream(struct CUstream_st *stream)
{
    wait_mark(append_mark(stream));
}

cudaError_t queue_wait_stream(cudaStream_t handle)
{
    pthread_mutex_lock(&queue.lock);
    struct CUstream_st *stream = resolve(handle);
    queue.counts.stream_waits++;
    if (is_refused(stream->capture))
        return unlock(cudaErrorStreamCaptureUnsupported);
    order_before(stream);
    wait_stream(stream);
    return unlock(cudaSuccess);
}

cudaError_t queue_wait_all(void)
{
    pthread_mutex_lock(&queue.lock);
    queue.counts.stream_waits++;
    if (is_refused(queue.captures))
        return unlock(cudaErrorStreamCaptureUnsupported);
    struct CUstream_st *stream = queue.streams;
    while (stream) {
        if (stream->first) {
            wait_stream(stream);
            stream = queue.streams; /* meanwhile any stream may have been freed */
        } else {
            stream = stream->next;
        }
    }
    return unlock(cudaSuccess);
}

void shim_set_failure(cudaError_t status)
{
    pthread_mutex_lock(&queue.lock);
    queue.requested_failure = status;
    if (status == cudaSuccess)
        queue.device_status = cudaSuccess;
    pthread_mutex_unlock(&queue.lock);
}

struct shim_counts shim_counts(void)
{
    pthread_mutex_lock(&queue.lock);
    struct shim_counts counts = queue.counts;
    pthread_mutex_unlock(&queue.lock);
    return counts;
}

cudaError_t queue_stream_open(bool blocking, cudaStream_t *ret_stream)
{
    struct CUstream_st *stream = abort_if_null(calloc(1, sizeof *stream));
    pthread_mutex_lock(&queue.lock);
    stream->blocking = blocking;
    stream->next = queue.streams;
    queue.streams = stream;
    *ret_stream = stream;
    return unlock(cudaSuccess);
}

cudaError_t queue_stream_close(cudaStream_t stream)
{
    pthread_mutex_lock(&queue.lock);
    stream->closed = true;
    if (!stream->first)
        stream_remove(stream);
    return unlock(cudaSuccess);
}

cudaError_t queue_event_open(bool timed, cudaEvent_t *ret_event)
{
    struct CUevent_st *event = abort_if_null(calloc(1, sizeof *event));
    event->timed = timed;
    *ret_event = event;
    return cudaSuccess;
}

cudaError_t queue_event_close(cudaEvent_t event)
{
    pthread_mutex_lock(&queue.lock);
    mark_release(event->mark);
    capture_release(event->capture);
    node_set_clear(&event->nodes);
    free(event);
    return unlock(cudaSuccess);
}

cudaError_t queue_event_record(cudaEvent_t event, cudaStream_t handle)
{
    pthread_mutex_lock(&queue.lock);
    struct CUstream_st *stream = resolve(handle);
    capture_release(event->capture);
    event->capture = capture_retain(stream->capture);
    node_set_clear(&event->nodes);
    if (stream->capture) {
        node_set_add_all(&event->nodes, &stream->newest_nodes);
        return unlock(cudaSuccess);
    }
    order_before(stream);
    mark_release(event->mark);
    event->mark = append_mark(stream);
    order_after(stream);
    run_ahead();
    return unlock(cudaSuccess);
}

cudaError_t queue_wait_event(cudaStream_t handle, cudaEvent_t event)
{
    pthread_mutex_lock(&queue.lock);
    struct CUstream_st *stream = resolve(handle);
    if (event->capture && capture_has_ended(event->capture))
        return unlock(cudaErrorCapturedEvent);
    /* from now on, this stream is also captured */
    if (event->capture && !stream->capture && stream != &queue.default_stream)
        stream->capture = capture_retain(event->capture);
    if (stream->capture != event->capture) {
        capture_invalidate_all(queue.captures);
        return unlock(cudaErrorStreamCaptureIsolation);
    }
    if (stream->capture) {
        node_set_add_all(&stream->newest_nodes, &event->nodes);
        return unlock(cudaSuccess);
    }
    order_before(stream);
    append_wait(stream, event->mark);
    order_after(stream);
    return unlock(cudaSuccess);
}

cudaError_t queue_event_wait(cudaEvent_t event)
{
    pthread_mutex_lock(&queue.lock);
    queue.counts.event_waits++;
    if (is_refused(event->capture))
        return unlock(cudaErrorCapturedEvent);
    if (event->mark)
        wait_mark(mark_retain(event->mark));
    return unlock(cudaSuccess);
}

/* Polling must make progress: every third query runs one more op, or if none can run, the first
 * later query that finds one does. */
enum { QUERIES_PER_STEP = 3 };

static int queries;

static cudaError_t query_mark(struct mark *mark)
{
    struct CUstream_st *next =
        mark && !mark->done && ++queries >= QUERIES_PER_STEP ? next_stream_for(mark->stream) : NULL;
    if (next) {
        queries = 0;
        memory_open();
        run_first(next);
        memory_close();
    }
    return mark && !mark->done ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t queue_event_query(cudaEvent_t event)
{
    pthread_mutex_lock(&queue.lock);
    return unlock(is_refused(event->capture) ? cudaErrorCapturedEvent : query_mark(event->mark));
}

cudaError_t queue_stream_query(cudaStream_t handle)
{
    pthread_mutex_lock(&queue.lock);
    if (is_refused(resolve(handle)->capture))
        return unlock(cudaErrorStreamCaptureUnsupported);
    struct mark *mark = append_mark(resolve(handle));
    cudaError_t status = query_mark(mark);
    mark_release(mark);
    return unlock(status);
}

cudaError_t queue_add_external(cudaStream_t handle, struct queue_work begin, struct mark **ret_mark)
{
    struct mark *mark = abort_if_null(calloc(1, sizeof *mark));
    mark->references = 2; /* one for the stream and one for the caller */
    if (queue_is_captured(handle))
        shim_violation("external work can't be captured");
    *ret_mark = mark;
    cudaError_t status = queue_add(handle, begin);
    pthread_mutex_lock(&queue.lock);
    append_wait(resolve(handle), mark);
    /* append_wait took its own reference, or none if the mark was already reached */
    mark_release(mark);
    return unlock(status);
}

void queue_mark_reached(struct mark *mark)
{
    pthread_mutex_lock(&queue.lock);
    mark->done = true;
    mark->done_ns = clock_now_ns();
    pthread_cond_broadcast(&queue.work_done);
    mark_release(mark);
    pthread_mutex_unlock(&queue.lock);
}

cudaError_t queue_event_elapsed(cudaEvent_t start, cudaEvent_t end, float *ret_ms)
{
    cudaError_t status = cudaSuccess;
    pthread_mutex_lock(&queue.lock);
    if (!start->timed || !end->timed || !start->mark || !end->mark)
        status = cudaErrorInvalidResourceHandle;
    else if (!start->mark->done || !end->mark->done)
        status = cudaErrorNotReady;
    else
        *ret_ms = (float)((double)end->mark->done_ns - (double)start->mark->done_ns) * 1e-6f;
    return unlock(status);
}

cudaError_t queue_capture_begin(cudaStream_t handle, enum cudaStreamCaptureMode mode)
{
    pthread_mutex_lock(&queue.lock);
    struct CUstream_st *stream = resolve(handle);
    if (stream == &queue.default_stream)
        return unlock(cudaErrorStreamCaptureUnsupported);
    if (stream->capture)
        return unlock(cudaErrorIllegalState);
    stream->capture = capture_begin(&queue.captures, stream, mode);
    return unlock(cudaSuccess);
}

cudaError_t queue_capture_end(cudaStream_t stream, struct capture **ret_capture)
{
    pthread_mutex_lock(&queue.lock);
    struct capture *capture = stream ? stream->capture : NULL;
    if (!capture)
        return unlock(cudaErrorIllegalState);
    cudaError_t status = capture_end(&queue.captures, capture, stream, queue.streams);
    capture_retain(capture);
    for (struct CUstream_st *s = queue.streams; s; s = s->next)
        if (s->capture == capture) {
            s->capture = NULL;
            node_set_clear(&s->newest_nodes);
            capture_release(capture);
        }
    if (status == cudaSuccess)
        *ret_capture = capture;
    else
        capture_release(capture);
    return unlock(status);
}

bool queue_is_captured(cudaStream_t handle)
{
    pthread_mutex_lock(&queue.lock);
    bool captured = resolve(handle)->capture != NULL;
    pthread_mutex_unlock(&queue.lock);
    return captured;
}
