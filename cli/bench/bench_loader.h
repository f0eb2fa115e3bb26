/*
 * bench_loader — measures a loader, and compares each figure with a limit.
 *
 *     samples as stored           plain reads of the same files: by the clock if they are cold,
 *                                 by CPU time if they are in the page cache
 *     photos, one worker          the same photos fully decoded by one thread, by CPU time
 *     several workers             the rate of one worker times the number of workers
 *     a first micro-batch         the time that its samples take in the middle of an epoch
 *
 *     struct bench_loader bench = {.dataset = path, .each_ns = ..., ...};   // the request
 *     bench_loader_inspect(&bench, io, err);                                // the dataset
 *     bench_loader_measure(&bench, err);                                    // list, firsts
 */
#ifndef MILLRACE_CLI_BENCH_BENCH_LOADER_H
#define MILLRACE_CLI_BENCH_BENCH_LOADER_H

#include "cli/bench/loader_benchmark.h"
#include "cli/core/console.h"

#include <stddef.h>

enum { BENCH_ROWS_MAX = 24, BENCH_FIRSTS = 2 };

/* How a figure is compared with its limit. */
enum bench_cost { BENCH_CLOCK, BENCH_CPU };

struct bench_row {
    char what[48];
    unsigned workers;     /* 0: no loader */
    bool is_training;     /* decoded as for training */
    enum bench_cost cost; /* of the limit */
    const char *limit;    /* "" if no limit is known */
    double limit_rate;    /* samples per unit of that cost */
    struct loader_benchmark speed;
};

struct bench_first {
    const char *what;
    uint64_t position; /* of its first sample in the epoch */
    uint64_t samples_count, ns;
};

struct bench_loader {
    /* The request; borrowed. */
    const char *dataset;
    uint64_t each_ns; /* limit per measurement */
    uint64_t batch, micro, memory_bytes, size, block;
    unsigned workers_most;
    const struct log *log;
    struct console *console; /* shows progress in rows */
    const atomic_int *stop;  /* nonzero ends the measurement with -EINTR */

    /* The dataset. */
    enum loader_decode decode; /* as in a training run */
    uint64_t samples;
    double sample_bytes; /* mean file bytes per sample */
    uint64_t positions;  /* per epoch: samples, or windows of text */

    /* The measurements. */
    const char *engine;
    struct bench_row list[BENCH_ROWS_MAX];
    size_t count;
    /* only the one at the start if an epoch has fewer than two steps */
    struct bench_first firsts[BENCH_FIRSTS];
    size_t firsts_count;
};

int bench_loader_inspect(struct bench_loader *bench, struct io *io, struct err *err);
/* Fills in list and firsts. Drops the dataset's files from the page cache and reads them back. */
int bench_loader_measure(struct bench_loader *bench, struct err *err);

/* Samples (or bytes) per unit of that cost. */
double bench_row_rate(const struct bench_row *row, enum bench_cost cost);
/* The highest rate for training, in samples per second. */
double bench_loader_best_rate(const struct bench_loader *bench);

#endif
