/*
 * io_fault — a backend over another one, whose operations go wrong as rules say: to see what a
 * program makes of it.
 *
 *     io_open(path, &(struct io_options){.fault = "read:eio@17"}, &io, err);
 *
 * The rules' grammar is fault_rules.h's. What the effects mean:
 *
 *     an error   the call fails with it and does nothing; a request is reaped with it. finalize and
 *                commit lose the transaction, as they do where a disk fails; abort can't fail
 *     delay      a request begins so much later, and its queue stays free for others; a call takes
 *                so much longer
 *     hold       the same, until io_fault_release or, of a request, cancel or queue_close
 *     short      a read ends as if the file had shrunk since it was opened, at any of its bytes; a
 *                write writes some of its bytes and fails with -ENOSPC. (That a kernel moves less
 *                than it was asked for is the engines' matter: they go on.)
 *     flip       one bit of what was read is another; one bit of what was written is another in the
 *                file, not in memory
 *     kill       the process dies by SIGKILL before the operation
 *
 * A delayed request needs its queue reaped to go on, as every request needs it to be known as done.
 *
 * Threads: as io.h says; set, release and counts by any, but set only while no operation is under
 * way.
 */
#ifndef MILLRACE_IO_IO_FAULT_H
#define MILLRACE_IO_IO_FAULT_H

#include "io/fault_rules.h"
#include "io/io.h"

/* Takes inner, which closes with it; on failure it stays the caller's. Its engine's name is inner's
 * and "with faults". -EINVAL where the rules are none, -ENOMEM. */
int io_fault_open(struct io *inner, const char *rules, struct io **ret_io, struct err *err);

/* The rules from now on, and all counts from zero. -EINVAL changes nothing. */
int io_fault_set(struct io *io, const char *rules, struct err *err);
/* What is held goes on, and nothing is held any more until rules are set. */
void io_fault_release(struct io *io);

struct io_fault_counts {
    uint64_t operations[FAULT_OPERATIONS]; /* asked for */
    uint64_t read_bytes;                   /* asked for */
    uint64_t hits;                         /* operations that a rule changed */
    uint64_t held;                         /* now */
    uint64_t in_flight;                    /* requests, now */
    /* Transactions aborted while requests were in flight: a mistake of the caller, where no other
     * than the transaction's are; what counts is any request of this backend. */
    uint64_t abandoned;
};
struct io_fault_counts io_fault_counts(struct io *io);
/* Of those operations that "durable" says. */
uint64_t io_fault_durable_count(struct io *io);

#endif
