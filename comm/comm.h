/*
 * comm — communication between ranks, with one table of operations per backend (self, MPI, TCP,
 * NCCL).
 *
 * A collective does not block but returns a work handle. comm_wait blocks until the work is done,
 * its deadline passes, or the communicator is aborted. On each communicator, all ranks make the
 * same calls in the same order; different communicators proceed concurrently. A missed deadline
 * aborts the communicator, because no rank knows what the others received.
 *
 * Buffers are borrowed until the work is done. After a failure, messages in flight may access them
 * until the process exits: never use stack memory, and pass the buffers of failed work to
 * comm_retain.
 *
 *     comm_self_open(&comm, err);
 *     struct comm_work work;
 *     comm->ops->all_reduce_i64(comm, words, words_count, COMM_SUM, &options, &work, err);
 *     comm_wait(comm, &work, err);
 *
 * Threads: one thread at a time per communicator.
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

enum comm_reduce_order {
    COMM_DETERMINISTIC, /* fixed tree: the same bits with every backend */
    COMM_FAST,          /* the library's own reduction */
};

enum comm_i64_op { COMM_SUM, COMM_MAX, COMM_OR };

struct comm_options {
    uint64_t deadline_ns;   /* compared with clock_now_ns(); 0: none, see set_timeout */
    const char *purpose;    /* names the work in errors; borrowed until the work is done */
    const char *trace_name; /* static; names the work in a trace; NULL: the operation's name */
    /* Work on device buffers starts after work queued on this stream. NULL: immediately. */
    struct device_stream *stream;
};

/* Owned by the caller; in use until comm_wait returns or test reports completion. */
struct comm_work {
    struct comm *comm;
    void *state; /* owned by the backend */
    uint64_t deadline_ns;
    const char *purpose;
    int status; /* 0 or -errno, once done */
    bool done;
};

enum {
    COMM_LIBRARY_BYTES = 64,
    COMM_DETERMINISTIC_MAX = 64,
    COMM_MESSAGE_TAGS = 62, /* tags 0 .. 61 work with every backend */
};

/* Hooks are required unless marked optional. Errors: -ETIMEDOUT, -ECONNABORTED, -EPROTO (another
 * rank made a different call), -EIO. Sizes are the same on all ranks unless stated otherwise. */
struct comm_ops {
    const char *name; /* "self", "mpi", "tcp", "nccl" */

    /* Ranks of the same color (>= 0) form a new communicator, ordered by (key, rank), owned by the
     * caller. Negative color: *ret_comm is NULL. Blocks. -ENOBUFS on all ranks of the new
     * communicator: one of them has 256 communicators open. */
    int (*split)(struct comm *comm, int color, int key, struct comm **ret_comm, struct err *err);

    /* Stores each rank's data at receive + rank * bytes; send may already point there. */
    int (*all_gather)(struct comm *comm, const void *send, void *receive, size_t bytes,
                      const struct comm_options *options, struct comm_work *work, struct err *err);
    /* send: a slice of count elements, F32 or F64, per rank. receive: the sum of this rank's
     * slices. Call comm_prepare_fast before several COMM_FAST sums are in flight. -EBUSY:
     * COMM_DETERMINISTIC_MAX deterministic sums (with TCP: all sums) are in flight. -ENOTSUP: a
     * deterministic sum in device memory. */
    int (*reduce_scatter)(struct comm *comm, const void *send, void *receive, size_t count,
                          enum dtype dtype, enum comm_reduce_order order,
                          const struct comm_options *options, struct comm_work *work,
                          struct err *err);
    /* Exact. values: input and result; may be on the stack, because the backend copies it. */
    int (*all_reduce_i64)(struct comm *comm, int64_t *values, size_t count, enum comm_i64_op op,
                          const struct comm_options *options, struct comm_work *work,
                          struct err *err);
    /* Sends send_bytes[r] bytes at send_offsets[r] to rank r; receives likewise. */
    int (*all_to_all)(struct comm *comm, const void *send, const size_t *send_offsets,
                      const size_t *send_bytes, void *receive, const size_t *receive_offsets,
                      const size_t *receive_bytes, const struct comm_options *options,
                      struct comm_work *work, struct err *err);
    /* Messages with the same tag arrive in order. -EINVAL: the tag is too large. */
    int (*send)(struct comm *comm, const void *data, size_t bytes, int to, int tag,
                const struct comm_options *options, struct comm_work *work, struct err *err);
    int (*receive)(struct comm *comm, void *data, size_t bytes, int from, int tag,
                   const struct comm_options *options, struct comm_work *work, struct err *err);

    /* Does not block. Returns 0 until the work is done, then its status; sets err only once. */
    int (*test)(struct comm_work *work, bool *ret_done, struct err *err);
    /* Optional if calls complete their work immediately. Blocks until the work is done or misses
     * its deadline; returns its status. */
    int (*wait)(struct comm_work *work, struct err *err);
    /* Optional. Sets the activity that waiting ranks report for this rank. may_be_slow: waiting
     * ranks extend their deadlines, for example while this rank waits for a disk. May be called
     * from any thread. activity: a static string. */
    void (*set_activity)(struct comm *comm, const char *activity, uint64_t step, bool may_be_slow);
    /* Optional. The backend's thread records its work in the trace, which must outlive all
     * communicators from one open call. A later call replaces the trace. */
    void (*add_tracks)(struct comm *comm, struct trace *trace);
    /* Optional. Limits the duration of a split and the silence of a rank; 0 (default): no limit.
     * Work without a deadline waits while the other ranks are alive: after each timeout, late ranks
     * are queried; if one does not reply within another timeout, the communicator ends. Applies to
     * all communicators from one open call. */
    void (*set_timeout)(struct comm *comm, uint64_t timeout_ns);
    /* Optional. Returns -ECONNABORTED, with the rank and its reason, if the communicator has
     * ended. Does not block. */
    int (*check)(struct comm *comm, struct err *err);
    /* Ends all work with -ECONNABORTED on all ranks. */
    void (*abort)(struct comm *comm);
    void (*close)(struct comm *comm);
    /* Optional. The library whose version determines the bits of fast sums: "Open MPI v4.1.4". */
    void (*describe_library)(const struct comm *comm, char text[COMM_LIBRARY_BYTES]);
};

/* The first member of each backend's struct. Immutable after open. */
struct comm {
    const struct comm_ops *ops;
    int rank, ranks;
    /* all_gather, reduce_scatter and all_to_all take device memory; all other calls, host
     * memory. */
    bool takes_device_memory;
};

/* Blocks until the work is done; returns its status. -ETIMEDOUT names late ranks. */
int comm_wait(struct comm *comm, struct comm_work *work, struct err *err);

/* Call optional hooks. If the hook is missing, they do nothing, return 0, or write "". */
void comm_set_activity(struct comm *comm, const char *activity, uint64_t step, bool may_be_slow);
void comm_add_tracks(struct comm *comm, struct trace *trace);
int comm_check(struct comm *comm, struct err *err);
void comm_describe_library(const struct comm *comm, char text[COMM_LIBRARY_BYTES]);

/* Blocking calls. */
int comm_barrier(struct comm *comm, const struct comm_options *options, struct err *err);
/* Call once per communicator, with nothing in flight, before several fast sums are in flight. */
int comm_prepare_fast(struct comm *comm, const struct comm_options *options, struct err *err);
/* Returns 0 if status is 0 on all ranks. Otherwise, failed ranks return their status; the others
 * return -EREMOTEIO, with a detail that names the first failed rank. Clears this rank's detail if
 * it equals the first failed rank's, so that a shared error is printed once. */
int comm_agree(struct comm *comm, int status, const struct comm_options *options, struct err *err);

/* Keeps a buffer of failed work until the process exits, reachable for leak checkers. NULL is
 * fine. */
void comm_retain(void *memory);

/* A single rank. Other backends: comm_mpi.h, comm_tcp.h, comm_nccl.h. */
int comm_self_open(struct comm **ret_comm, struct err *err);
/* Simulates one rank of many for dry runs: calls complete immediately and move no data. A split
 * keeps rank and ranks, because the colors of the other ranks are unknown. */
int comm_null_open(int rank, int ranks, bool takes_device_memory, struct comm **ret_comm,
                   struct err *err);
void comm_close(struct comm *comm); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
