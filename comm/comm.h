/*
 * comm — communication between ranks, behind one table of operations per backend (self, MPI, TCP,
 * NCCL).
 *
 * A collective returns at once with a work handle. comm_wait blocks until the work is done, its
 * deadline passes, or the communicator is aborted. On each communicator, all ranks make the same
 * calls in the same order; different communicators proceed concurrently. A missed deadline ends the
 * communicator, like an abort, because no rank can know what the others received.
 *
 * Buffers are borrowed until the work is done. If it fails, they are borrowed until the process
 * exits, because messages in flight may still read and write them. So never use stack memory, and
 * give the buffers of failed work to comm_retain.
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
    COMM_DETERMINISTIC, /* a fixed tree: the same bits with every backend */
    COMM_FAST,          /* the library's own reduction */
};

enum comm_i64_op { COMM_SUM, COMM_MAX, COMM_OR };

struct comm_options {
    uint64_t deadline_ns; /* by clock_now_ns; 0: none, see set_timeout */
    const char *what;     /* names the work in errors; lives as long as the work */
    const char *flight;   /* names the work in a trace; static; NULL: the kind of operation */
    /* The work on device buffers starts after what this stream has queued so far. NULL: at once. */
    struct device_stream *stream;
};

/* Owned by the caller; in use until comm_wait returns or test reports it done. */
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
 * rank made a different call), -EIO. Sizes are the same on all ranks unless stated. */
struct comm_ops {
    const char *name; /* "self", "mpi", "tcp", "nccl" */

    /* Ranks of the same color (>= 0) form a new communicator, ordered by (key, rank), which the
     * caller closes. Negative color: *ret_comm becomes NULL. Blocks. -ENOBUFS on all these ranks:
     * one of them has 256 open. */
    int (*split)(struct comm *comm, int color, int key, struct comm **ret_comm, struct err *err);

    /* Writes what each rank sent to receive + rank * bytes, where send may already be. */
    int (*all_gather)(struct comm *comm, const void *send, void *receive, size_t bytes,
                      const struct comm_options *options, struct comm_work *work, struct err *err);
    /* send: one slice of count elements per rank, F32 or F64. receive: the sum over all ranks of
     * this rank's slice. Several COMM_FAST in flight need comm_prepare_fast. -EBUSY:
     * COMM_DETERMINISTIC_MAX deterministic sums have not been waited for; TCP makes all sums
     * deterministic. -ENOTSUP: a deterministic sum in device memory. */
    int (*reduce_scatter)(struct comm *comm, const void *send, void *receive, size_t count,
                          enum dtype dtype, enum comm_order order,
                          const struct comm_options *options, struct comm_work *work,
                          struct err *err);
    /* In place and exact. The backend exchanges copies, so values may be on the stack. */
    int (*all_reduce_i64)(struct comm *comm, int64_t *values, size_t count, enum comm_i64_op op,
                          const struct comm_options *options, struct comm_work *work,
                          struct err *err);
    /* Sends send_bytes[r] bytes at send_offsets[r] to rank r, and receives likewise. */
    int (*all_to_all)(struct comm *comm, const void *send, const size_t *send_offsets,
                      const size_t *send_bytes, void *receive, const size_t *receive_offsets,
                      const size_t *receive_bytes, const struct comm_options *options,
                      struct comm_work *work, struct err *err);
    /* Messages of one tag arrive in order. -EINVAL: the tag is too large. */
    int (*send)(struct comm *comm, const void *data, size_t bytes, int to, int tag,
                const struct comm_options *options, struct comm_work *work, struct err *err);
    int (*receive)(struct comm *comm, void *data, size_t bytes, int from, int tag,
                   const struct comm_options *options, struct comm_work *work, struct err *err);

    /* Never blocks. Returns 0 until the work is done, then its status; a failure's detail only
     * once. */
    int (*test)(struct comm_work *work, bool *ret_done, struct err *err);
    /* Optional if work is done when its call returns. Blocks until unfinished work is done or late.
     * Returns its status. */
    int (*wait)(struct comm_work *work, struct err *err);
    /* Optional. Sets the activity that ranks waiting for this one report. may_be_slow: it may take
     * long, such as waiting for a disk; the waiting ranks then extend their deadlines by the same
     * length. Any thread. what: static. */
    void (*set_activity)(struct comm *comm, const char *what, uint64_t step, bool may_be_slow);
    /* Optional. The backend's thread then records its work in the trace, which outlives all
     * communicators of one open. The last call wins. */
    void (*add_tracks)(struct comm *comm, struct trace *trace);
    /* Optional. How long a split may take and a rank may be silent; 0, the default: forever. Work
     * without a deadline waits while the other ranks live: they are asked after each such period,
     * and one that does not answer within another period ends the communicator. Applies to all
     * communicators of one open. */
    void (*set_timeout)(struct comm *comm, uint64_t timeout_ns);
    /* Optional. Returns -ECONNABORTED, with the rank and its reason, if the communicator has ended.
     * Never blocks. */
    int (*check)(struct comm *comm, struct err *err);
    /* Ends all work with -ECONNABORTED, here and on the other ranks. */
    void (*abort)(struct comm *comm);
    void (*close)(struct comm *comm);
    /* Optional. The library whose version determines the bits of fast sums: "Open MPI v4.1.4". */
    void (*describe_library)(const struct comm *comm, char text[COMM_LIBRARY_BYTES]);
};

/* Backends embed it first. Immutable after open. */
struct comm {
    const struct comm_ops *ops;
    int rank, ranks;
    /* all_gather, reduce_scatter and all_to_all take device memory; the others host memory. */
    bool takes_device_memory;
};

/* Blocks until the work is done and returns its status. -ETIMEDOUT names what was late. */
int comm_wait(struct comm *comm, struct comm_work *work, struct err *err);

/* The optional hooks. Without one: nothing, 0, or "". */
void comm_set_activity(struct comm *comm, const char *what, uint64_t step, bool may_be_slow);
void comm_add_tracks(struct comm *comm, struct trace *trace);
int comm_check(struct comm *comm, struct err *err);
void comm_describe_library(const struct comm *comm, char text[COMM_LIBRARY_BYTES]);

/* Calls with their waits. */
int comm_barrier(struct comm *comm, const struct comm_options *options, struct err *err);
/* Prepares the library for several fast sums in flight. Once per communicator, with nothing else in
 * flight. */
int comm_prepare_fast(struct comm *comm, const struct comm_options *options, struct err *err);
/* Returns 0 if status is 0 on all ranks. Otherwise failed ranks return their status, and the others
 * -EREMOTEIO naming the first failed rank. A detail equal to that rank's is cleared, so that a
 * shared error is printed once. */
int comm_agree(struct comm *comm, int status, const struct comm_options *options, struct err *err);

/* Keeps a buffer of failed work, reachable for leak checkers, until the process exits. NULL is
 * fine. */
void comm_retain(void *memory);

/* One rank alone. Other backends: comm_mpi.h, comm_tcp.h, comm_nccl.h. */
int comm_self_open(struct comm **ret_comm, struct err *err);
/* Simulates one rank of many for dry runs: calls complete at once and move nothing. A split keeps
 * rank and ranks, because the other ranks' colors are unknown. */
int comm_null_open(int rank, int ranks, bool takes_device_memory, struct comm **ret_comm,
                   struct err *err);
void comm_close(struct comm *comm); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
