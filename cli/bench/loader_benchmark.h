/*
 * loader_benchmark — measures a loader's throughput and its limits: reading the same files and
 * decoding the same photos. CPU time covers the whole process (io_benchmark.h).
 */
#ifndef MILLRACE_CLI_BENCH_LOADER_BENCHMARK_H
#define MILLRACE_CLI_BENCH_LOADER_BENCHMARK_H

#include "cli/bench/io_benchmark.h"
#include "loader/loader.h"

#include <stdatomic.h>

struct loader_benchmark_job {
    /* one dataset, no mix; epochs_max and positions_max are ignored */
    struct loader_options options;
    uint64_t ns_max; /* time limit; at least one micro-batch is taken */
    /* Measures from opening to the end of the epoch. Otherwise epochs repeat, and measuring
     * begins after a warm-up of at most half of ns_max. */
    bool is_one_epoch;
    const atomic_int *stop; /* nonzero: stops; may be NULL */
};

struct loader_benchmark {
    struct io_benchmark totals; /* bytes and operations of reading */
    uint64_t samples_count;
    uint64_t first_batch_ns; /* since opening */
    uint64_t first_batch_samples_count;
    enum loader_stage limit; /* during the measurement */
};

/* Takes micro-batches from a new loader without delay. -EINTR: stopped; or the loader's error. */
int loader_benchmark_run(const struct loader_benchmark_job *job,
                         struct loader_benchmark *ret_result, struct err *err);

/* Repeatedly decodes the first photos of the dataset in full, from memory on one thread. Counts no
 * bytes. -ENODATA: these samples have no photos. */
int loader_benchmark_decode(const struct loader_benchmark_job *job, uint32_t photos_count,
                            struct loader_benchmark *ret_result, struct err *err);

/* Reads the dataset's files sequentially in large blocks: once if is_one_epoch, else repeatedly.
 * Counts no samples. */
int loader_benchmark_read_files(struct io *io, const struct loader_benchmark_job *job,
                                struct loader_benchmark *ret_result, struct err *err);

#endif
