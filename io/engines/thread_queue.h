/*
 * thread_queue — a queue whose requests a few threads execute. Internal to io/; io.h documents
 * submit, reap and cancel.
 */
#ifndef MILLRACE_IO_ENGINES_THREAD_QUEUE_H
#define MILLRACE_IO_ENGINES_THREAD_QUEUE_H

#include "io/io.h"

enum { THREAD_QUEUE_THREADS_MAX = 64, THREAD_QUEUE_THREADS_DEFAULT = 4 };

/* What a queue's threads do. */
struct thread_queue_work {
    /* Executes a request and returns its result. thread: the number of the calling thread, less
     * than the queue's threads. */
    ssize_t (*run)(void *context, unsigned thread, struct io_request *request);
    void *context; /* outlives the queue */
};

/* Threads per queue: the default if options is NULL or its threads is 0; at most
 * THREAD_QUEUE_THREADS_MAX. */
unsigned thread_queue_threads(const struct io_options *options);

/* depth: 1..IO_QUEUE_DEPTH_MAX; threads: 1..THREAD_QUEUE_THREADS_MAX, at most depth of them,
 * started on demand after the first. -EINVAL, -ENOMEM; -EAGAIN if no thread can start. */
int thread_queue_open(unsigned depth, unsigned threads, const struct thread_queue_work *work,
                      struct io_queue **ret_queue, struct err *err);
void thread_queue_close(struct io_queue *queue); /* NULL is fine */
int thread_queue_submit(struct io_queue *queue, struct io_request *const *requests, unsigned count);
int thread_queue_reap(struct io_queue *queue, struct io_request **done, unsigned count_max,
                      unsigned count_min, int timeout_ms);
void thread_queue_cancel(struct io_queue *queue, struct io_request *request);

#endif
