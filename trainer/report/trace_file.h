/*
 * trace_file — the traces of all ranks in one file, a process for each.
 *
 * The first rank writes; the others send it their text a track at a time, so that no rank holds
 * more than one track's, however many there are.
 */
#ifndef MILLRACE_TRAINER_REPORT_TRACE_FILE_H
#define MILLRACE_TRAINER_REPORT_TRACE_FILE_H

#include "base/trace.h"
#include "comm/comm.h"
#include "io/io.h"

struct trace_file {
    struct io *io;
    const char *path;          /* appears whole, in place of an existing one */
    const struct trace *trace; /* of this rank; stopped */
    struct comm *comm;
    uint64_t timeout_ns; /* for each thing that ranks do together; 0: none */
};

/* Collective: each rank calls it, with a trace that was started. Blocks. *ret_written, on the first
 * rank: 0, or why the file could not be written, with detail in err. Returns what ended the ranks'
 * talk, which is the run's end. */
int trace_file_write(const struct trace_file *file, int *ret_written, struct err *err);

#endif
