/*
 * capture — recorded work and its dependencies: a CUDA graph, from its first operation to its
 * launches.
 *
 * A capture begins at one stream. Others join it by waiting for its events, and the origin must
 * wait for them before the capture ends. An operation that cannot be recorded invalidates it.
 * Reference-counted: references are held by the streams that record into it, the events recorded in
 * it, and the code that runs it.
 *
 * The queue's lock guards a capture until it has ended; after that, only the reference count
 * changes.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_CAPTURE_H
#define MILLRACE_TESTS_CUDA_ON_CPU_CAPTURE_H

#include "tests/cuda_on_cpu/queue.h"

#include <stdbool.h>

struct capture;

/* A set of indices of recorded operations; zero-initialized, it is empty. */
struct node_set {
    int *numbers;
    int count;
};

void node_set_add_all(struct node_set *set, const struct node_set *more);
void node_set_clear(struct node_set *set);

/* Begins a capture and adds it to the front of the list. */
struct capture *capture_begin(struct capture **captures, cudaStream_t origin,
                              enum cudaStreamCaptureMode mode);

/* Records work that depends on every operation in *last; *last then contains only this work. */
void capture_add(struct capture *capture, struct node_set *last, struct queue_work work);

/* Returns true if a capture in progress forbids this thread to make unsafe calls, and invalidates
 * that capture. */
bool captures_forbid_unsafe_calls(struct capture *captures);

void capture_invalidate_all(struct capture *captures);

/* Removes the capture from the list. If the stream is not its origin, returns
 * cudaErrorStreamCaptureUnmatched, and the capture continues. Returns
 * cudaErrorStreamCaptureInvalidated if the capture was invalidated, and
 * cudaErrorStreamCaptureUnjoined if a stream in the list `streams` joined it and was not waited
 * for. */
cudaError_t capture_end(struct capture **captures, struct capture *capture, cudaStream_t origin,
                        cudaStream_t streams);
bool capture_has_ended(const struct capture *capture);

struct capture *capture_retain(struct capture *capture); /* may be NULL */
void capture_release(struct capture *capture);           /* may be NULL */

/* Runs all work of an ended capture, in any order that its dependencies allow. */
void capture_run(const struct capture *capture);

#endif
