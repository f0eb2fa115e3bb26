/*
 * bench_loader — measures a loader and compares each rate with its limit.
 *
 *     samples as stored           plain reads of the same files: by wall time if cold, by CPU
 *                                 time if warm
 *     photos, one worker          the same photos fully decoded by one thread, by CPU time
 *     several workers             the rate of one worker times the number of workers
 *     first micro-batch           the time that its samples take mid-epoch
 *
 *     struct bench_loader bench = {.dataset = path, .measurement_ns = ..., ...};   // the request
 *     bench_loader_inspect(&bench, io, err);                                // the dataset
 *     bench_loader_measure(&bench, err);                                    // rows, first_batches
 */
#ifndef MILLRACE_CLI_BENCH_BENCH_LOADER_H
#define MILLRACE_CLI_BENCH_BENCH_LOADER_H

#include "cli/bench/loader_benchmark.h"
#include "cli/core/console.h"

#include <stddef.h>

enum { BENCH_ROWS_MAX = 24, BENCH_FIRST_BATCHES_MAX = 2 };

/* The time base of a rate. */
enum bench_time { BENCH_WALL_TIME, BENCH_CPU_TIME };

struct bench_row {
    char label[48];
    unsigned workers;      /* 0: no loader */
    bool matches_training; /* decodes as a training run does */
    enum bench_time limit_time;
    const char *limit; /* "" if no limit is known */
    double limit_rate; /* samples per second of limit_time */
    struct loader_benchmark result;
};

struct bench_first_batch {
    const char *label;
    uint64_t position; /* of the first sample, in the epoch */
    uint64_t samples_count, ns;
};

struct bench_loader {
    /* Set by the caller; borrowed. */
    const char *dataset;
    uint64_t measurement_ns; /* maximum per measurement */
    uint64_t batch, micro, memory_bytes, size, block;
    unsigned workers_max;
    const struct log *log;
    struct console *console; /* its progress counts rows */
    const atomic_int *stop;  /* nonzero: stops with -EINTR */

    /* Set by bench_loader_inspect. */
    enum loader_decode decode; /* as in a training run */
    uint64_t samples;
    double sample_bytes; /* mean file bytes per sample */
    uint64_t positions;  /* per epoch: samples, or windows of text */

    /* Set by bench_loader_measure. */
    const char *engine;
    struct bench_row rows[BENCH_ROWS_MAX];
    size_t rows_count;
    /* only that at the start if an epoch has one step */
    struct bench_first_batch first_batches[BENCH_FIRST_BATCHES_MAX];
    size_t first_batches_count;
};

int bench_loader_inspect(struct bench_loader *bench, struct io *io, struct err *err);
/* Fills rows and first_batches. Evicts the dataset's files from the page cache, then reads them
 * back. */
int bench_loader_measure(struct bench_loader *bench, struct err *err);

/* Samples per second. */
double bench_row_rate(const struct bench_row *row, enum bench_time time);
/* The highest rate of a training row, in samples per second of wall time. */
double bench_loader_best_rate(const struct bench_loader *bench);

#endif
