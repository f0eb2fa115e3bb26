/*
 * uring_queue — the io_uring engine: the kernel executes requests on local files asynchronously.
 * Internal to io/; the only user of liburing. io.h documents submit, reap and cancel.
 */
#ifndef MILLRACE_IO_ENGINES_URING_QUEUE_H
#define MILLRACE_IO_ENGINES_URING_QUEUE_H

#include "io/io.h"

/* Whether io_uring queues are available: 0, -ENOSYS (no support, or a kernel before Linux 5.11),
 * -EPERM (forbidden) or -ENOMEM. */
int uring_queue_probe(void);

/* depth: 1..IO_QUEUE_DEPTH_MAX. -EINVAL, -ENOMEM, -EMFILE. */
int uring_queue_open(unsigned depth, enum io_cache cache, struct io_queue **ret_queue,
                     struct err *err);
void uring_queue_close(struct io_queue *queue);
void uring_queue_register(struct io_queue *queue, void *memory, size_t bytes);
int uring_queue_submit(struct io_queue *queue, struct io_request *const *requests, unsigned count);
int uring_queue_reap(struct io_queue *queue, struct io_request **done, unsigned count_max,
                     unsigned count_min, int timeout_ms);
void uring_queue_cancel(struct io_queue *queue, struct io_request *request);

#endif
