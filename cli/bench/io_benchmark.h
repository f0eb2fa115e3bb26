/*
 * io_benchmark — measures reading and writing a file's blocks through a backend.
 *
 *     struct io_benchmark_job job = {.kind = IO_READ, .block_bytes = 128 << 10, .depth = 32,
 *                                .file_bytes = size, .ns_max = 1000000000};
 *     struct io_benchmark totals = {0};
 *     io_benchmark_run(io, file, path, &job, &totals, err);         // adds to totals
 *
 * CPU time covers the whole process, user and kernel, so run nothing else in it.
 */
#ifndef MILLRACE_CLI_BENCH_IO_BENCHMARK_H
#define MILLRACE_CLI_BENCH_IO_BENCHMARK_H

#include "io/io.h"

#include <stdatomic.h>

struct io_benchmark_job {
    enum io_request_kind kind;
    uint64_t file_bytes;    /* a multiple of block_bytes */
    uint64_t block_bytes;   /* a multiple of IO_ALIGN_BYTES */
    unsigned depth;         /* blocks in flight */
    bool is_random;         /* shuffled order in each pass; else file order */
    bool is_one_pass;       /* else repeats */
    uint64_t ns_max;        /* time limit */
    const atomic_int *stop; /* nonzero: stops; may be NULL */
};

struct io_benchmark {
    uint64_t bytes, operations_count;
    uint64_t elapsed_ns, cpu_ns;
};

/* Blocks. -EINTR: stopped; or the engine's error, with path and offset. */
int io_benchmark_run(struct io *io, struct io_file *file, const char *path,
                     const struct io_benchmark_job *job, struct io_benchmark *totals,
                     struct err *err);

/* Adds the time between begin and end. */
void io_benchmark_begin(struct io_benchmark *totals);
void io_benchmark_end(struct io_benchmark *totals);

double io_benchmark_per_second(const struct io_benchmark *totals, double count);
double io_benchmark_per_cpu_second(const struct io_benchmark *totals, double count);
double io_benchmark_bytes_per_second(const struct io_benchmark *totals);
double io_benchmark_bytes_per_cpu_second(const struct io_benchmark *totals);

/* Measures copying buffers larger than the caches, on one thread. -ENOMEM. */
int io_benchmark_copy(uint64_t ns_max, struct io_benchmark *totals, struct err *err);

#endif
