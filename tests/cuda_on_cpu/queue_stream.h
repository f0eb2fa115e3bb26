/*
 * queue_stream — the structures of streams and events, for queue.c and capture.c.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_QUEUE_STREAM_H
#define MILLRACE_TESTS_CUDA_ON_CPU_QUEUE_STREAM_H

#include "tests/cuda_on_cpu/capture.h"

#include <stdint.h>

/* A point in a stream, of an event or of the default stream. Reference-counted. */
struct mark {
    int references;
    bool done;
    uint64_t done_ns;
    struct CUstream_st
        *stream; /* not dereferenced once done; NULL: reached from outside the queue */
};

/* work.run: an operation; else mark: one to reach or to wait for. */
struct op {
    struct op *next;
    struct queue_work work;
    struct mark *mark;
    bool waits;
};

struct CUstream_st {
    struct CUstream_st *next;
    struct op *first, *last;
    bool blocking;           /* synchronizes with the default stream */
    bool closed;             /* destroyed; freed when it is empty */
    struct mark *seen;       /* of the default stream: already waited for */
    struct capture *capture; /* that records work queued here; NULL: work is run */
    struct node_set newest;  /* dependencies of the next recorded operation */
};

struct CUevent_st {
    struct mark *mark; /* of the last record; NULL: never recorded */
    bool timed;
    struct capture *capture; /* that the last record belongs to; NULL: none */
    struct node_set nodes;   /* what was recorded before it */
};

#endif
