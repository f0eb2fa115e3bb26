/*
 * bench_file — a temporary file that is written and made durable, and how long that took: what
 * `bench io` and `bench ckpt` hold others against, and read afterwards.
 */
#ifndef MILLRACE_CLI_BENCH_BENCH_FILE_H
#define MILLRACE_CLI_BENCH_BENCH_FILE_H

#include "io/benchmark.h"
#include "io/io.h"

struct bench_file {
    struct io *io;
    const char *folder;
    const char *name;       /* as errors name it: it never appears */
    uint64_t bytes;         /* a multiple of BENCH_FILE_BLOCK_BYTES */
    uint64_t ns_max;        /* no block is begun after so long */
    const atomic_int *stop; /* io_benchmark_job's */
};

enum { BENCH_FILE_BLOCK_BYTES = 1 << 20, BENCH_FILE_DEPTH = 32 };

/* Blocks. Adds to speed, whose bytes are then those of the file, its fsync too. The file lies at
 * transaction_staging of the set, until the caller aborts that. -EINTR: stopped; otherwise what the
 * engine reports. */
int bench_file_write(const struct bench_file *wanted, struct io_benchmark *speed,
                     struct io_transaction **ret_transaction, struct err *err);

#endif
