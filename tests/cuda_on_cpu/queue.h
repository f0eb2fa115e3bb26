/*
 * queue — streams as what they promise and no more: each runs its work in order, and nothing else
 * is ordered but by events.
 *
 * Queued work runs on a thread of the shim while somebody waits for it, one piece after the other;
 * which stream's is next, the order decides (order.h): at once, as late as may be, or at random,
 * some of it also before anybody waits. The same seed and the same calls of one thread give the
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

/* A piece of work. run may be called more than once (graphs), never two at a time; data is freed by
 * destroy (may be NULL). */
struct queue_work {
    void (*run)(void *data);
    void (*destroy)(void *data);
    void *data;
};

/* Queues it and takes it over: cudaSuccess, or why not. stream NULL is the default stream, which
 * waits for all streams that are not cudaStreamNonBlocking and they for it. */
cudaError_t queue_add(cudaStream_t stream, struct queue_work work);

/* Work that others do, as another machine or engine: `begin` runs in its turn, and what is queued
 * on the stream after it waits until the mark that it gives is reached. Not while the stream is
 * captured. */
struct mark;
cudaError_t queue_add_foreign(cudaStream_t stream, struct queue_work begin, struct mark **ret_mark);
/* From any thread, once for each mark. */
void queue_reach(struct mark *mark);

/* Until all that is queued on stream (or everywhere) has run. */
cudaError_t queue_wait_stream(cudaStream_t stream);
cudaError_t queue_wait_all(void);

/* Streams and events as the functions of the CUDA runtime of like name have them. */
cudaError_t queue_stream_open(bool blocking, cudaStream_t *ret_stream);
cudaError_t queue_stream_close(cudaStream_t stream);
cudaError_t queue_stream_query(cudaStream_t stream);
cudaError_t queue_event_open(bool timed, cudaEvent_t *ret_event);
cudaError_t queue_event_close(cudaEvent_t event);
cudaError_t queue_event_record(cudaEvent_t event, cudaStream_t stream);
cudaError_t queue_event_query(cudaEvent_t event);
cudaError_t queue_event_wait(cudaEvent_t event);
cudaError_t queue_event_elapsed(cudaEvent_t start, cudaEvent_t end, float *ret_ms);
/* What is queued on stream from now on waits for the event's last record. */
cudaError_t queue_wait_event(cudaStream_t stream, cudaEvent_t event);

/* To be asked before memory is given: cudaErrorStreamCaptureUnsupported where a capture in progress
 * forbids it to this thread. The capture is then spoiled. */
cudaError_t queue_permit(void);

/* Capture, as cudaStreamBeginCapture and cudaStreamEndCapture have it; what was recorded is given
 * (capture.h). */
struct capture;
cudaError_t queue_capture_begin(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t queue_capture_end(cudaStream_t stream, struct capture **ret_capture);
bool queue_is_captured(cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
