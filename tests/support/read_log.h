/*
 * read_log — counts the files that a test's backend opens, and its reads of them.
 *
 *     read_log_begin(io);                       // starts an empty log
 *     dataset_open(io, ...);
 *     struct read_log_sum sum = read_log_sum("shard-000003");
 *     read_log_end(io);                         // restores the backend
 *
 * One backend at a time. Thread-safe while logging.
 */
#ifndef MILLRACE_TESTS_SUPPORT_READ_LOG_H
#define MILLRACE_TESTS_SUPPORT_READ_LOG_H

#include "io/io.h"

struct read_log_sum {
    unsigned opens_count;
    unsigned reads_count;
    uint64_t read_bytes;
    /* the reads that extend to the end of their file */
    unsigned tail_reads_count;
    uint64_t tail_read_bytes;
};

void read_log_begin(struct io *io);
void read_log_end(struct io *io);
/* Sums over all files whose path contains text. */
struct read_log_sum read_log_sum(const char *text);

#endif
