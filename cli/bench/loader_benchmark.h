/*
 * loader_benchmark — measures a loader's throughput, and the limits set by reading its files alone
 * and by decoding its photos alone.
 *
 * CPU time is that of the whole process, including its kernel time, so nothing else should run in
 * the process.
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
    const atomic_int *stop; /* stops when nonzero; NULL: never */
};

struct loader_benchmark {
    struct io_benchmark took; /* bytes and operations are those of reading */
    uint64_t samples_count;
    uint64_t first_batch_ns; /* since opening */
    uint64_t first_batch_samples_count;
    enum loader_stage limit; /* during the measurement */
};

/* Opens a loader and takes its micro-batches as fast as they come. -EINTR: stopped; otherwise the
 * loader's error. */
int loader_benchmark_run(const struct loader_benchmark_job *job, struct loader_benchmark *ret_speed,
                         struct err *err);

/* Decodes the first photos that the loader would deliver, at most photos_count, repeatedly, each in
 * full, on one thread and from memory. No bytes are counted, because nothing is read. -ENODATA:
 * these samples have no photos. */
int loader_benchmark_decode(const struct loader_benchmark_job *job, uint32_t photos_count,
                            struct loader_benchmark *ret_speed, struct err *err);

/* Reads the dataset's files sequentially through io in large blocks, as `cat` would: once if
 * is_one_epoch, otherwise repeatedly. Leaves the page cache as it is. Counts no samples. */
int loader_benchmark_plain(struct io *io, const struct loader_benchmark_job *job,
                           struct loader_benchmark *ret_speed, struct err *err);

#endif
