/*
 * capture — work that is recorded instead of run, and what of it comes after what: a CUDA graph,
 * from its first piece to its runs.
 *
 * A capture begins at one stream; others join it by waiting for its events, and must be waited for
 * before it ends. What can't be recorded spoils it. Counted: by the streams that it records, by the
 * events recorded in it, by whoever runs it.
 *
 * Threads: guarded by the queue's lock until it has ended; then nothing in it changes but the
 * count.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_CAPTURE_H
#define MILLRACE_TESTS_CUDA_ON_CPU_CAPTURE_H

#include "tests/cuda_on_cpu/queue.h"

#include <stdbool.h>

struct capture;

/* Numbers of pieces of work; zero is empty. */
struct node_set {
    int *numbers;
    int count;
};

void node_set_add_all(struct node_set *set, const struct node_set *more);
void node_set_clear(struct node_set *set);

/* Begins one, first in the list of those in progress. */
struct capture *capture_begin(struct capture **captures, cudaStream_t origin,
                              enum cudaStreamCaptureMode mode);

/* Records work after all of *last, which then is this work alone. */
void capture_add(struct capture *capture, struct node_set *last, struct queue_work work);

/* Whether a capture in progress forbids the calling thread what is unsafe; it is then spoiled. */
bool capture_forbids(struct capture *captures);

void capture_spoil_all(struct capture *captures);

/* Takes it out of the list, unless the stream is not its origin (cudaErrorStreamCaptureUnmatched,
 * and it goes on). Invalidated where it was spoiled, Unjoined where a stream of the list `streams`
 * that belongs to it was not waited for. */
cudaError_t capture_end(struct capture **captures, struct capture *capture, cudaStream_t origin,
                        cudaStream_t streams);
bool capture_ended(const struct capture *capture);

struct capture *capture_share(struct capture *capture); /* NULL is fine */
void capture_release(struct capture *capture);          /* NULL is fine */

/* Runs the whole of an ended one, in any order that its waits leave. */
void capture_run(const struct capture *capture);

#endif
