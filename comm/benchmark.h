/*
 * benchmark — measures how fast ranks exchange data, for `millrace bench comm`.
 *
 *     struct comm_benchmark_job job = {
 *         .comm = comm, .what = COMM_BENCHMARK_ALL_GATHER, .bytes = 1 << 20,
 *         .ns_min = 200000000};
 *     comm_benchmark_run(&job, &speed, err);       // all ranks, with the same job
 *
 * Exchanges run one after another, each timed from its call to the end of its wait. All ranks make
 * the same number of exchanges; the slowest rank decides when the run is long enough.
 */
#ifndef MILLRACE_COMM_BENCHMARK_H
#define MILLRACE_COMM_BENCHMARK_H

#include "comm/comm.h"

#include <stdatomic.h>

enum comm_benchmark_what {
    COMM_BENCHMARK_ALL_GATHER,
    COMM_BENCHMARK_DETERMINISTIC, /* reduce_scatter of F32, like the next one */
    COMM_BENCHMARK_FAST,
    COMM_BENCHMARK_ALL_TO_ALL,
    COMM_BENCHMARK_ALL_REDUCE, /* of int64 */
    /* no exchange: all ranks at once copy as many bytes as they would receive in one */
    COMM_BENCHMARK_COPY,
    COMM_BENCHMARK_COUNT
};

/* "all-gather" */
const char *comm_benchmark_name(enum comm_benchmark_what what);

/* Immutable. */
struct comm_benchmark_job {
    struct comm *comm; /* borrowed; at least two ranks */
    enum comm_benchmark_what what;
    /* All slices together; for an all-reduce, the values of one rank. At least 8 per rank. */
    uint64_t bytes;
    uint64_t ns_min;        /* the run takes at least this long, and at most a few times as long */
    uint64_t timeout_ns;    /* of each exchange; 0: none */
    const atomic_int *stop; /* a nonzero value on any rank stops the run; NULL: none */
};

struct comm_benchmark {
    uint64_t bytes; /* received by each rank from others, per exchange */
    uint64_t exchanges_count, elapsed_ns;
};

/* -EINTR on all ranks: stopped. -ENOMEM, or the exchange's error. */
int comm_benchmark_run(const struct comm_benchmark_job *job, struct comm_benchmark *ret_result,
                       struct err *err);
/* Measures the mean time for one thread to wake another that waits: a lower bound for an exchange
 * that runs on its own thread. */
int comm_benchmark_wake(uint64_t ns_min, uint64_t *ret_ns, struct err *err);

#endif
