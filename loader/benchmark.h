/*
 * benchmark — measures a loader's throughput, and the limits set by its files' bytes and by its
 * photos alone, for `millrace bench loader`.
 *
 *     struct loader_benchmark speed = {0};
 *     struct loader_benchmark_job job = {.options = &options, .ns_max = 1000000000};
 *     loader_benchmark_run(&job, &speed, err);
 *
 * CPU time is that of the whole process, its and the kernel's, so nothing else should run in it
 * meanwhile.
 */
#ifndef MILLRACE_LOADER_BENCHMARK_H
#define MILLRACE_LOADER_BENCHMARK_H

#include "io/benchmark.h"
#include "loader/loader.h"

#include <stdatomic.h>

/* Immutable. */
struct loader_benchmark_job {
    /* Of the loader to be measured; one dataset, no mix. epochs_max and positions_max are not
     * looked at. */
    const struct loader_options *options;
    uint64_t ns_max; /* ends after so long; a first micro-batch comes in any case */
    /* All counts, from opening to the epoch's end. Else epochs follow each other, and counting
     * begins behind the start: after some micro-batches, or half of the time. */
    bool is_one_epoch;
    /* loader_benchmark_decode: at most this many photos are decoded, all held in memory */
    uint32_t photos_count;
    const atomic_int *stop; /* ends when it is not zero; NULL: nobody asks for that */
};

struct loader_benchmark {
    struct io_benchmark took; /* its bytes and operations: of reading */
    uint64_t samples_count;
    uint64_t first_batch_ns; /* from opening */
    uint64_t first_batch_samples_count;
    enum loader_stage limit; /* meanwhile */
};

/* Opens a loader and takes its micro-batches as fast as they come. -EINTR: stopped; otherwise what
 * the loader reports. */
int loader_benchmark_run(const struct loader_benchmark_job *job, struct loader_benchmark *ret_speed,
                         struct err *err);

/* Decodes photos, each whole, by one thread and from memory, again and again: the first that the
 * loader would deliver. What is in memory is not read, so there are no bytes. -ENODATA where the
 * dataset's samples lack the field. */
int loader_benchmark_decode(const struct loader_benchmark_job *job,
                            struct loader_benchmark *ret_speed, struct err *err);

/* Reads the dataset's files from one end to the other, in large blocks, as `cat` would: once in one
 * epoch, else again and again. It goes through io, and makes nothing cold or warm. No samples are
 * counted. */
int loader_benchmark_plain(struct io *io, const struct loader_benchmark_job *job,
                           struct loader_benchmark *ret_speed, struct err *err);

#endif
