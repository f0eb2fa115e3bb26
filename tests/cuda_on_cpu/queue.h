/*
 * queue — streams with exactly the ordering that CUDA guarantees: each runs its work in order, and
 * only events order work of different streams.
 *
 * Queued work runs on a thread of the shim, one operation at a time, while a caller waits for it.
 * The order (order.h) chooses the next stream: at once, as late as possible, or at random, in which
 * case some work also runs before any wait. The same seed and the same calls of one thread give the
 * same run.
 *
 * Threads: any; one lock inside, which is not held while work runs.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_QUEUE_H
#define MILLRACE_TESTS_CUDA_ON_CPU_QUEUE_H

#include <stdbool.h>

#include <driver_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One operation. run may be called more than once (graphs), but never concurrently; destroy (may be
 * NULL) frees data. */
struct queue_work {
    void (*run)(void *data);
    void (*destroy)(void *data);
    void *data;
};

/* Queues the work and takes ownership: cudaSuccess, or why not. stream NULL is the default stream,
 * which waits for all streams that are not cudaStreamNonBlocking, and they wait for it. */
cudaError_t queue_add(cudaStream_t stream, struct queue_work work);

/* Work that something else does, such as another machine or engine. `begin` runs in its turn, and
 * later work on the stream waits until the returned mark is reached. Not while the stream is
 * captured. */
struct mark;
cudaError_t queue_add_external(cudaStream_t stream, struct queue_work begin,
                               struct mark **ret_mark);
/* From any thread, once per mark. */
void queue_signal(struct mark *mark);

/* Block until all work queued on stream (or on all streams) has run. */
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
/* Work queued on stream from now on waits for the event's last record. */
cudaError_t queue_wait_event(cudaStream_t stream, cudaEvent_t event);

/* Called before memory is allocated: cudaErrorStreamCaptureUnsupported if a capture in progress
 * forbids it to this thread. That capture is then invalidated. */
cudaError_t queue_permit(void);

/* As cudaStreamBeginCapture and cudaStreamEndCapture; the latter returns what was recorded
 * (capture.h). */
struct capture;
cudaError_t queue_capture_begin(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t queue_capture_end(cudaStream_t stream, struct capture **ret_capture);
bool queue_is_captured(cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
