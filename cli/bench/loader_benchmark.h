/*
 * loader_benchmark — measures a loader's throughput, and its limits: reading the same files and
 * decoding the same photos.
 *
 * CPU time is the process's, including kernel time, so nothing else should run in the process.
 */
#ifndef MILLRACE_CLI_BENCH_LOADER_BENCHMARK_H
#define MILLRACE_CLI_BENCH_LOADER_BENCHMARK_H

#include "cli/bench/io_benchmark.h"
#include "loader/loader.h"

#include <stdatomic.h>

struct loader_benchmark_job {
    /* of the loader to measure; one dataset, no mix; epochs_max and positions_max are ignored */
    struct loader_options options;
    uint64_t ns_max; /* time limit; at least one micro-batch is taken */
    /* Measures everything from opening to the epoch's end. Otherwise epochs repeat, and measuring
     * begins after a warm-up of some micro-batches or half of the time. */
    bool is_one_epoch;
    const atomic_int *stop; /* stops when nonzero; may be NULL */
};

struct loader_benchmark {
    struct io_benchmark totals; /* bytes and operations of reading */
    uint64_t samples_count;
    uint64_t first_batch_ns; /* since opening */
    uint64_t first_batch_samples_count;
    enum loader_stage limit; /* during the measurement */
};

/* Takes micro-batches from a new loader as fast as they come. -EINTR: stopped; otherwise the
 * loader's error. */
int loader_benchmark_run(const struct loader_benchmark_job *job,
                         struct loader_benchmark *ret_result, struct err *err);

/* Repeatedly decodes in full the first photos of the dataset, at most photos_count, on one thread
 * and from memory. Counts no bytes. -ENODATA: these samples have no photos. */
int loader_benchmark_decode(const struct loader_benchmark_job *job, uint32_t photos_count,
                            struct loader_benchmark *ret_result, struct err *err);

/* Reads the dataset's files sequentially through io in large blocks: once if is_one_epoch,
 * otherwise repeatedly. Leaves the page cache as it is. Counts no samples. */
int loader_benchmark_read_files(struct io *io, const struct loader_benchmark_job *job,
                                struct loader_benchmark *ret_result, struct err *err);

#endif
