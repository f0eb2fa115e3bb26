/*
 * io_fault — a backend that wraps another one and injects faults according to rules, for testing.
 *
 *     io_fault_open(path, NULL, "read:eio@17", &io, err);
 *
 * fault_rules.h has the rules' grammar. Effects:
 *
 *     an error   the call fails and does nothing; a request has the error as its result. A failed
 *                finalize or commit loses the transaction, as after a disk error; abort cannot fail
 *     delay      a request begins later without delaying others in its queue; a call takes longer
 *     hold       delays until io_fault_release or, for a request, cancel or queue_close
 *     short      a read ends at any of its bytes, as if the file had shrunk since it was opened; a
 *                write writes some of its bytes and fails with -ENOSPC. (Partial transfers by the
 *                kernel are not simulated: the engines resume them.)
 *     flip       one bit is inverted in the data read, or in the file after a write
 *     kill       the process dies by SIGKILL before the operation
 *
 * A delayed request proceeds only while its queue is reaped. A delay of every read makes the medium
 * slow: gap_bytes is at least the delay x FAULT_BYTES_PER_US, the bandwidth of a rotational disk.
 *
 * Threads: see io.h. set, release and counts may be called from any thread, but set only while no
 * operation is in progress.
 */
#ifndef MILLRACE_IO_FAULTS_IO_FAULT_H
#define MILLRACE_IO_FAULTS_IO_FAULT_H

#include "io/faults/fault_rules.h"
#include "io/io.h"

enum { FAULT_BYTES_PER_US = 128 };

/* Calls io_open, then wraps the backend if rules is neither NULL nor "". The wrapper's engine name
 * is "NAME with faults". -EINVAL: malformed rules; or an error from io_open. */
int io_fault_open(const char *path_or_url, const struct io_options *options, const char *rules,
                  struct io **ret_io, struct err *err);

/* The functions below need a wrapped backend. */

/* Replaces the rules and resets all counts. -EINVAL changes nothing. */
int io_fault_set(struct io *io, const char *rules, struct err *err);
/* Releases all held operations; none is held again until rules are set. */
void io_fault_release(struct io *io);

struct io_fault_counts {
    uint64_t operations[FAULT_OPERATIONS]; /* attempted */
    uint64_t durable_operations;           /* those that "durable" includes */
    uint64_t read_bytes;                   /* requested */
    uint64_t hits;                         /* operations that a rule changed */
    uint64_t held_operations;
    uint64_t in_flight_requests;
    /* Transactions aborted while any request of this backend was in flight: a bug in the caller if
     * the request belongs to the transaction. */
    uint64_t unsafe_aborts;
};
struct io_fault_counts io_fault_counts(struct io *io);

#endif
