/*
 * file_queue — the thread engine: requests on local files, done by a few threads of the queue's
 * own. Internal to io/.
 *
 * The contracts stand in io.h beside submit, reap and cancel.
 */
#ifndef MILLRACE_IO_FILE_QUEUE_H
#define MILLRACE_IO_FILE_QUEUE_H

#include "io/io.h"

struct file_queue;

enum { FILE_QUEUE_THREADS_MAX = 64, FILE_QUEUE_THREADS_USUAL = 4 };

/* How many threads a queue has by these options, NULL or 0 there: the usual; at most
 * FILE_QUEUE_THREADS_MAX. */
unsigned file_queue_threads(const struct io_options *options);

/* depth: 1..IO_QUEUE_DEPTH_MAX; threads: 1..FILE_QUEUE_THREADS_MAX, of which one starts now and the
 * others when there is work for them. Gives the queue. -EINVAL, -ENOMEM, -EAGAIN where no thread
 * can start. */
int file_queue_open(unsigned depth, unsigned threads, enum io_cache cache,
                    struct file_queue **ret_queue, struct err *err);
void file_queue_close(struct file_queue *queue);
int file_queue_submit(struct file_queue *queue, struct io_request *const *requests, unsigned count);
int file_queue_reap(struct file_queue *queue, struct io_request **done, unsigned count_max,
                    unsigned least, int timeout_ms);
void file_queue_cancel(struct file_queue *queue, struct io_request *request);

#endif
