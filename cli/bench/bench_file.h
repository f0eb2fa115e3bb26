/*
 * bench_file — measures writing a durable temporary file, the baseline of `bench io` and `bench
 * ckpt`.
 */
#ifndef MILLRACE_CLI_BENCH_BENCH_FILE_H
#define MILLRACE_CLI_BENCH_BENCH_FILE_H

#include "cli/bench/io_benchmark.h"
#include "io/io.h"

struct bench_file_options {
    struct io *io;
    const char *folder;
    const char *name;       /* for errors; the file never gets this name */
    uint64_t bytes;         /* a multiple of BENCH_FILE_BLOCK_BYTES */
    uint64_t ns_max;        /* no write starts after this time */
    const atomic_int *stop; /* like io_benchmark_job.stop */
};

enum { BENCH_FILE_BLOCK_BYTES = 1 << 20, BENCH_FILE_DEPTH = 32 };

/* Blocks. Adds the bytes and the time, including fsync, to totals. The file is at the transaction's
 * staging path until the caller aborts the transaction. -EINTR: stopped; or the engine's error. */
int bench_file_write(const struct bench_file_options *options, struct io_benchmark *totals,
                     struct io_transaction **ret_transaction, struct err *err);

#endif
