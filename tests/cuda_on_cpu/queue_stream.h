/*
 * queue_stream — the structures for streams and events, used by queue.c and capture.c.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_QUEUE_STREAM_H
#define MILLRACE_TESTS_CUDA_ON_CPU_QUEUE_STREAM_H

#include "tests/cuda_on_cpu/capture.h"

#include <stdint.h>

/* A point in a stream, for an event or the default stream. Reference-counted. */
struct mark {
    int references;
    bool done;
    uint64_t done_ns;
    /* Not dereferenced once done; NULL: the mark is reached from outside the queue. */
    struct CUstream_st *stream;
};

/* An operation if work.run is set; otherwise, reaches mark or waits for it. */
struct queued_op {
    struct queued_op *next;
    struct queue_work work;
    struct mark *mark;
    bool waits;
};

struct CUstream_st {
    struct CUstream_st *next;
    struct queued_op *first, *last;
    bool blocking;                     /* synchronizes with the default stream */
    bool closed;                       /* destroyed; freed when it has no more work */
    struct mark *awaited_default_mark; /* already waited for */
    struct capture *capture;           /* records the work queued here; NULL: work is run */
    struct node_set newest_nodes;      /* dependencies of the next recorded operation */
};

struct CUevent_st {
    struct mark *mark; /* set by the last record; NULL: never recorded */
    bool timed;
    struct capture *capture; /* the capture that the last record belongs to; NULL: none */
    struct node_set nodes;   /* the operations recorded before it */
};

#endif
