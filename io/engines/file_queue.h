/*
 * file_queue — the thread engine: a few threads per queue execute requests on local files. Internal
 * to io/; io.h documents submit, reap and cancel.
 */
#ifndef MILLRACE_IO_ENGINES_FILE_QUEUE_H
#define MILLRACE_IO_ENGINES_FILE_QUEUE_H

#include "io/io.h"

enum { FILE_QUEUE_THREADS_MAX = 64, FILE_QUEUE_THREADS_DEFAULT = 4 };

/* Threads per queue: the default if options is NULL or its threads is 0; at most
 * FILE_QUEUE_THREADS_MAX. */
unsigned file_queue_threads(const struct io_options *options);

/* depth: 1..IO_QUEUE_DEPTH_MAX; threads: 1..FILE_QUEUE_THREADS_MAX, started on demand after the
 * first. -EINVAL, -ENOMEM; -EAGAIN if no thread can start. */
int file_queue_open(unsigned depth, unsigned threads, enum io_cache cache,
                    struct io_queue **ret_queue, struct err *err);
void file_queue_close(struct io_queue *queue);
int file_queue_submit(struct io_queue *queue, struct io_request *const *requests, unsigned count);
int file_queue_reap(struct io_queue *queue, struct io_request **done, unsigned count_max,
                    unsigned count_min, int timeout_ms);
void file_queue_cancel(struct io_queue *queue, struct io_request *request);

#endif
