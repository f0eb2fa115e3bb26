/*
 * trace_file — writes the traces of all ranks to one file, each rank as one process.
 *
 * The first rank writes. The others send one track at a time, so no rank ever holds more than one.
 */
#ifndef MILLRACE_TRAINER_REPORT_TRACE_FILE_H
#define MILLRACE_TRAINER_REPORT_TRACE_FILE_H

#include "base/os/trace.h"
#include "comm/comm.h"
#include "io/io.h"

struct trace_file {
    struct io *io;
    const char *path;          /* created or replaced atomically */
    const struct trace *trace; /* this rank's; stopped */
    struct comm *comm;
    uint64_t timeout_ns; /* per collective operation; 0: none */
};

/* Collective; blocks. The trace must have been started. Returns communication errors, which end
 * the run. *ret_write_status, on the first rank: 0, or the error of the write, with detail in
 * err. */
int trace_file_write(const struct trace_file *file, int *ret_write_status, struct err *err);

#endif
