/*
 * bench_loader — what is measured of a loader, each figure beside what would limit it.
 *
 * What a figure is held against: samples as they are stored, against plain reads of the same files,
 * by the clock where they are cold and by CPU time where they are in the page cache; photos by one
 * worker, against the same photos decoded whole by one thread, by CPU time; several workers,
 * against so many times one; a first micro-batch, against the time that its samples take in the
 * middle of an epoch.
 *
 *     struct bench_loader bench = {.dataset = path, .each_ns = ..., ...};   // what is asked for
 *     bench_loader_look(&bench, io, err);                                   // what the dataset is
 *     bench_loader_measure(&bench, err);                                    // list, firsts
 */
#ifndef MILLRACE_CLI_BENCH_BENCH_LOADER_H
#define MILLRACE_CLI_BENCH_BENCH_LOADER_H

#include "cli/core/console.h"
#include "loader/benchmark.h"

#include <stddef.h>

enum { BENCH_ROWS_MAX = 24, BENCH_FIRSTS = 2 };

/* By which of its costs a figure is held against its limit. */
enum bench_cost { BENCH_CLOCK, BENCH_CPU };

struct bench_row {
    char what[48];
    unsigned workers;     /* 0: no loader */
    bool is_training;     /* samples as a training run takes them */
    enum bench_cost cost; /* of what limits it */
    const char *limit;    /* "" where nothing is known that does */
    double limit_rate;    /* samples by that cost */
    struct loader_benchmark speed;
};

struct bench_first {
    const char *what;
    uint64_t position; /* of its first sample, in the epoch */
    uint64_t samples_count, ns;
};

/* Owner thread. */
struct bench_loader {
    /* What is asked for; borrowed. */
    const char *dataset;
    uint64_t each_ns; /* for each measurement, at most */
    uint64_t batch, micro, memory_bytes, size, block;
    unsigned workers_most;
    const struct log *log;
    struct console *console; /* is shown how many rows there are */
    const atomic_int *stop;  /* ends it with -EINTR when it is not zero */

    /* What the dataset is. */
    enum loader_decode decode; /* what a training run would take */
    uint64_t samples;          /* of the dataset, files' bytes of one on the mean */
    double sample_bytes;
    uint64_t positions; /* of an epoch: samples, or windows of text */

    /* What was measured. */
    const char *engine;
    struct bench_row list[BENCH_ROWS_MAX];
    size_t count;
    struct bench_first
        firsts[BENCH_FIRSTS]; /* in an epoch of less than two steps only that at the start */
    size_t firsts_count;
};

/* Opens the dataset for what it is; io serves its path. */
int bench_loader_look(struct bench_loader *bench, struct io *io, struct err *err);
/* Fills in list and firsts. Drops the dataset's files from the page cache, and reads them back. */
int bench_loader_measure(struct bench_loader *bench, struct err *err);

/* Samples, or bytes, by a cost of the row's. */
double bench_row_rate(const struct bench_row *row, enum bench_cost cost);
/* The most samples a second that a training run would get. */
double bench_loader_best_rate(const struct bench_loader *bench);

#endif
