/*
 * comm — communication between ranks, behind one table of operations per backend (self, MPI, TCP,
 * NCCL).
 *
 * Every collective returns at once with a work handle. comm_wait blocks until the work is done, its
 * deadline passes, or the communicator is aborted. All ranks make the same calls in the same order
 * on a communicator; work on different communicators proceeds concurrently. A missed deadline ends
 * the communicator, like an abort, because no rank can know what the others received.
 *
 * Buffers are borrowed until the work is done. If it fails they are borrowed until the process
 * exits, because what was in flight may still read and write them. Therefore never use stack
 * memory, and give the buffers of failed work to comm_retain instead of freeing them.
 *
 *     comm_self_open(&comm, err);
 *     struct comm_work work;
 *     comm->ops->all_reduce_i64(comm, words, words_count, COMM_SUM, &options, &work, err);
 *     comm_wait(comm, &work, err);
 *
 * Threads: a communicator is used by one thread at a time.
 */
#ifndef MILLRACE_COMM_COMM_H
#define MILLRACE_COMM_COMM_H

#include "base/dtype.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct comm;
struct trace;
struct device_stream;

enum comm_order {
    /* Deterministic: the same bits for any number of ranks. An all-to-all of slices, which their
     * owner adds in a fixed tree. */
    COMM_DETERMINISTIC,
    COMM_FAST, /* the library's own reduction */
};

enum comm_i64_op { COMM_SUM, COMM_MAX, COMM_OR };

struct comm_options {
    uint64_t deadline_ns; /* by clock_now_ns; 0: none, see set_timeout */
    const char *what;     /* names the work in errors; lives as long as the work */
    const char *flight;   /* names the work in a trace; static; NULL: the kind of operation */
    /* For device buffers: they are ready when what is queued on this stream now has finished. NULL:
     * they are ready. Whatever is queued after the work is done sees its results. */
    struct device_stream *stream;
};

/* Storage of the caller, from the call until comm_wait returns or test says done. */
struct comm_work {
    struct comm *comm;
    void *state; /* the backend's */
    uint64_t deadline_ns;
    const char *what;
    int status; /* 0 or -errno, once done */
    bool done;
};

enum {
    COMM_LIBRARY_BYTES = 64,
    COMM_DETERMINISTIC_MAX = 64,
    COMM_MESSAGE_TAGS = 62, /* every backend has at least these tags, from 0 */
};

/* Hooks are required unless marked optional. Errors: -ETIMEDOUT, -ECONNABORTED, -EPROTO (another
 * rank made a different call), -EIO, with detail. Sizes are the same on all ranks unless stated. */
struct comm_ops {
    const char *name; /* "self", "mpi", "tcp", "nccl" */

    /* Ranks of the same color (>= 0) form a new communicator, ordered by (key, rank), which the
     * caller closes. Negative color: *ret_comm becomes NULL. Blocks. -ENOBUFS, on all ranks of the
     * new communicator: one of their processes has 256 open. */
    int (*split)(struct comm *comm, int color, int key, struct comm **ret_comm, struct err *err);

    /* Writes what each rank sent to receive[rank * bytes]. send may be in place, at receive + rank
     * * bytes. */
    int (*all_gather)(struct comm *comm, const void *send, void *receive, size_t bytes,
                      const struct comm_options *options, struct comm_work *work, struct err *err);
    /* send: one slice of count elements per rank. receive: the sum over all ranks of this rank's
     * slice. F32 and F64. COMM_FAST needs comm_prepare_fast if several are in flight. -EBUSY:
     * COMM_DETERMINISTIC_MAX canonical ones (of any order, if the library has no sums of its
     * own) have not been waited for. -ENOTSUP: a canonical sum in device memory; use all_to_all
     * and add. */
    int (*reduce_scatter)(struct comm *comm, const void *send, void *receive, size_t count,
                          enum dtype dtype, enum comm_order order,
                          const struct comm_options *options, struct comm_work *work,
                          struct err *err);
    /* In place and exact: for flags, counts, the limbs of exact sums. The backend exchanges copies,
     * so unlike other buffers the values belong to the caller again even after a failure. */
    int (*all_reduce_i64)(struct comm *comm, int64_t *values, size_t count, enum comm_i64_op op,
                          const struct comm_options *options, struct comm_work *work,
                          struct err *err);
    /* Sends send_bytes[r] bytes at send_offsets[r] to rank r, and receives likewise. Sizes may be
     * zero. */
    int (*all_to_all)(struct comm *comm, const void *send, const size_t *send_offsets,
                      const size_t *send_bytes, void *receive, const size_t *receive_offsets,
                      const size_t *receive_bytes, const struct comm_options *options,
                      struct comm_work *work, struct err *err);
    /* Point-to-point messages. Those of one tag arrive in order. -EINVAL: the backend has no such
     * tag. */
    int (*send)(struct comm *comm, const void *data, size_t bytes, int to, int tag,
                const struct comm_options *options, struct comm_work *work, struct err *err);
    int (*receive)(struct comm *comm, void *data, size_t bytes, int from, int tag,
                   const struct comm_options *options, struct comm_work *work, struct err *err);

    /* Makes progress without blocking. Returns 0 until the work is done, then its status. Only the
     * call that first finds a failure has its detail. */
    int (*test)(struct comm_work *work, bool *ret_done, struct err *err);
    /* Optional if work is done when its call returns. Blocks until unfinished work is done or late.
     * Returns its status. */
    int (*wait)(struct comm_work *work, struct err *err);
    /* Optional. Notes what this process does from now on, and in which step; ranks that wait for it
     * report that. may_be_slow: it may take long, as waiting for a disk does, so the deadlines of
     * waiting ranks are extended by their own length. From any thread; what is static. */
    void (*set_activity)(struct comm *comm, const char *what, uint64_t step, bool may_be_slow);
    /* Optional. From now on the backend's thread records what it does in the trace (trace.h), which
     * outlives the communicator and those split from it. The last call wins. */
    void (*add_tracks)(struct comm *comm, struct trace *trace);
    /* Optional. How long a rank may be late or silent; 0, the initial value: forever. It is the
     * deadline of splits. Work without a deadline waits as long as the ranks it waits for live:
     * they are asked each time this period has passed, and one that does not answer within another
     * period ends the communicator, like a deadline. Applies to this communicator and to all that
     * share its ancestry in the process. */
    void (*set_timeout)(struct comm *comm, uint64_t timeout_ns);
    /* Optional. Returns -ECONNABORTED, with who and why, if any rank has ended the communicator;
     * else 0. For callers that wait for something other than its work. Never blocks. */
    int (*check)(struct comm *comm, struct err *err);
    /* Ends all work on it with -ECONNABORTED, here and on the other ranks. */
    void (*abort)(struct comm *comm);
    void (*close)(struct comm *comm);
    /* Optional. The library that computes fast sums, on whose version their bits depend: "Open MPI
     * v4.1.4"; "": none. */
    void (*describe_library)(const struct comm *comm, char text[COMM_LIBRARY_BYTES]);
};

/* Backends embed it first. Immutable after open. */
struct comm {
    const struct comm_ops *ops;
    int rank, ranks;
    /* all_gather, reduce_scatter and all_to_all take device memory (comm_nccl.h) instead of host
     * memory; the other operations always take host memory. */
    bool takes_device_memory;
};

/* Blocks until the work is done and returns its status. -ETIMEDOUT, naming what was late, if the
 * deadline passes first. */
int comm_wait(struct comm *comm, struct comm_work *work, struct err *err);

/* The optional hooks. Without one: nothing, 0, or "". */
void comm_set_activity(struct comm *comm, const char *what, uint64_t step, bool may_be_slow);
void comm_add_tracks(struct comm *comm, struct trace *trace);
int comm_check(struct comm *comm, struct err *err);
void comm_describe_library(const struct comm *comm, char text[COMM_LIBRARY_BYTES]);

/* A collective call and its wait in one. */
int comm_barrier(struct comm *comm, const struct comm_options *options, struct err *err);
/* Prepares the library for fast sums, once per communicator and with nothing else in flight:
 * otherwise it might set up the first sum collectively while later ones are already in flight. */
int comm_prepare_fast(struct comm *comm, const struct comm_options *options, struct err *err);
/* Returns 0 on all ranks if status is 0 on all. Otherwise a failed rank returns its status, and the
 * others -EREMOTEIO naming the first failed rank. A detail equal to that of the first failed rank
 * is cleared, so that an error which ranks share is printed once. */
int comm_agree(struct comm *comm, int status, const struct comm_options *options, struct err *err);

/* Keeps a malloc'ed buffer of failed work until the process exits, reachable for leak checkers.
 * NULL is fine. */
void comm_retain(void *memory);

/* One rank alone; all work is done when the call returns. The other backends: comm_mpi.h,
 * comm_tcp.h, comm_nccl.h. */
int comm_self_open(struct comm **ret_comm, struct err *err);
/* Simulates one rank of many for dry runs: every call completes at once and moves nothing, so
 * receive buffers and reduced values stay as they were. A split keeps rank and ranks, because the
 * colors of the other ranks are unknown. takes_device_memory: true as for comm_nccl. */
int comm_null_open(int rank, int ranks, bool takes_device_memory, struct comm **ret_comm,
                   struct err *err);
void comm_close(struct comm *comm); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
