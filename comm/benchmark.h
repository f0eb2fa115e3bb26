/*
 * benchmark — how fast ranks exchange: what `millrace bench comm` measures.
 *
 *     struct comm_benchmark_job job = {
 *         .comm = comm, .what = COMM_BENCHMARK_ALL_GATHER, .bytes = 1 << 20,
 *         .ns_least = 200000000};
 *     comm_benchmark_run(&job, &speed, err);       // all ranks, with the same job
 *
 * Exchanges run one after another: each is measured from its call to the end of its wait.
 * All ranks make as many: the slowest says when it was long enough.
 */
#ifndef MILLRACE_COMM_BENCHMARK_H
#define MILLRACE_COMM_BENCHMARK_H

#include "comm/comm.h"

#include <stdatomic.h>

enum comm_benchmark_what {
    COMM_BENCHMARK_ALL_GATHER,
    COMM_BENCHMARK_CANONICAL, /* reduce_scatter of F32, as are the next */
    COMM_BENCHMARK_FAST,
    COMM_BENCHMARK_ALL_TO_ALL,
    COMM_BENCHMARK_ALL_REDUCE, /* of int64 */
    /* no exchange: each rank copies as many bytes as come to it in one, all at once */
    COMM_BENCHMARK_COPY,
    COMM_BENCHMARK_COUNT
};

/* "all-gather" */
const char *comm_benchmark_name(enum comm_benchmark_what what);

/* Immutable. */
struct comm_benchmark_job {
    struct comm *comm; /* borrowed; of more than one rank */
    enum comm_benchmark_what what;
    uint64_t
        /* of all ranks' slices together; of an all-reduce, what each brings. At least 8 each */
        bytes;
    uint64_t ns_least;      /* goes on for so long, and at most some times that */
    uint64_t timeout_ns;    /* of each exchange; 0: none */
    const atomic_int *stop; /* any rank's ends it when it is not zero; NULL: nobody asks for that */
};

struct comm_benchmark {
    uint64_t bytes; /* that came to each rank from others, in one exchange */
    uint64_t exchanges_count, elapsed_ns;
};

/* -EINTR: stopped, on all ranks; -ENOMEM; what the exchange gives. */
int comm_benchmark_run(const struct comm_benchmark_job *job, struct comm_benchmark *ret_speed,
                       struct err *err);
/* How long it takes a thread to wake another one that waits, on the mean: what no exchange by a
 * thread of its own goes without. */
int comm_benchmark_wake(uint64_t ns_least, uint64_t *ret_ns, struct err *err);

#endif
