/*
 * queue_stream — what a stream and an event are, for queue.c and capture.c, which record them.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_QUEUE_STREAM_H
#define MILLRACE_TESTS_CUDA_ON_CPU_QUEUE_STREAM_H

#include "tests/cuda_on_cpu/capture.h"

#include <stdint.h>

/* A point in a stream: of an event, of the default stream. Counted. */
struct mark {
    int references;
    bool done;
    uint64_t done_ns;
    struct CUstream_st *stream; /* not followed once done; NULL: others reach it */
};

/* work.run: a piece of work; else mark: reached, or waited for. */
struct op {
    struct op *next;
    struct queue_work work;
    struct mark *mark;
    bool waits;
};

struct CUstream_st {
    struct CUstream_st *next;
    struct op *first, *last;
    bool blocking;           /* orders itself with the default stream */
    bool closed;             /* destroyed; goes when it is empty */
    struct mark *seen;       /* of the default stream: already waited for */
    struct capture *capture; /* that records what is queued here; NULL: it is to run */
    struct node_set newest;  /* what the next recorded piece of work comes after */
};

struct CUevent_st {
    struct mark *mark; /* of the last record; NULL: never recorded */
    bool timed;
    struct capture *capture; /* that the last record belongs to; NULL: none */
    struct node_set nodes;   /* what was recorded before it */
};

#endif
