/*
 * queue — streams with exactly the order that CUDA guarantees: each runs its work in order, and
 * only events order work of different streams.
 *
 * Queued work runs on a thread of the shim, one operation at a time, while a caller waits for it.
 * The order (order.h) decides which stream runs next and when: at once, as late as possible, or at
 * random, in which case some work runs before any wait. The same seed and the same calls from one
 * thread give the same run.
 *
 * Thread-safe; the internal lock is not held while work runs.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_QUEUE_H
#define MILLRACE_TESTS_CUDA_ON_CPU_QUEUE_H

#include <stdbool.h>

#include <driver_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One operation. run may be called more than once (for graphs), but never concurrently; destroy
 * (may be NULL) frees data. */
struct queue_work {
    void (*run)(void *data);
    void (*destroy)(void *data);
    void *data;
};

/* Queues the work and takes ownership of it. Returns cudaSuccess or an error. stream NULL is the
 * default stream: it waits for all streams that are not cudaStreamNonBlocking, and they wait for
 * it. */
cudaError_t queue_add(cudaStream_t stream, struct queue_work work);

/* Work that runs outside the queue, for example on another machine or engine. `begin` runs when the
 * stream reaches it, and later work on the stream waits until the returned mark is reached. The
 * stream must not be captured. */
struct mark;
cudaError_t queue_add_external(cudaStream_t stream, struct queue_work begin,
                               struct mark **ret_mark);
/* May be called from any thread, once per mark. */
void queue_mark_reached(struct mark *mark);

/* Block until all work queued on the stream (or on all streams) has run. */
cudaError_t queue_wait_stream(cudaStream_t stream);
cudaError_t queue_wait_all(void);

/* Streams and events, with the semantics of the matching CUDA runtime functions. */
cudaError_t queue_stream_open(bool blocking, cudaStream_t *ret_stream);
cudaError_t queue_stream_close(cudaStream_t stream);
cudaError_t queue_stream_query(cudaStream_t stream);
cudaError_t queue_event_open(bool timed, cudaEvent_t *ret_event);
cudaError_t queue_event_close(cudaEvent_t event);
cudaError_t queue_event_record(cudaEvent_t event, cudaStream_t stream);
cudaError_t queue_event_query(cudaEvent_t event);
cudaError_t queue_event_wait(cudaEvent_t event);
cudaError_t queue_event_elapsed(cudaEvent_t start, cudaEvent_t end, float *ret_ms);
/* Work queued on the stream from now on waits for the event's last record. */
cudaError_t queue_wait_event(cudaStream_t stream, cudaEvent_t event);

/* Call before allocating memory. Returns cudaErrorStreamCaptureUnsupported, and invalidates the
 * capture, if a capture in progress forbids this thread to allocate. */
cudaError_t queue_check_allocation(void);

/* Like cudaStreamBeginCapture and cudaStreamEndCapture; the latter returns what was recorded
 * (capture.h). */
struct capture;
cudaError_t queue_capture_begin(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t queue_capture_end(cudaStream_t stream, struct capture **ret_capture);
bool queue_is_captured(cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
