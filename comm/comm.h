/*
 * comm — ranks that work together: one table of operations a backend (self, MPI, TCP, NCCL).
 *
 * Every collective returns at once with a work handle; comm_wait blocks until it is done, its
 * deadline passes, or the communicator is aborted. All ranks make the same calls in the same order
 * on one communicator; work on different communicators goes on side by side. A deadline that passes
 * is the end of the communicator, as an abort is: nobody can know what the others have got.
 *
 * Buffers are borrowed until the work is done, and where it fails until the process exits: what was
 * in flight then may still be read from them and written into them. So none lies on a stack, and
 * what would be freed after a failure goes to comm_retain.
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
    /* the same bits whatever the ranks: an all-to-all of slices, summed by a fixed tree at their
     * owner */
    COMM_CANONICAL,
    COMM_FAST, /* the library's own reduction */
};

enum comm_i64_op { COMM_SUM, COMM_MAX, COMM_OR };

struct comm_options {
    uint64_t deadline_ns; /* monotonic, see base/clock; 0: none, see set_timeout */
    const char *what;     /* what is said to be late, in errors; lives as long as the work */
    const char *flight;   /* its name in a trace; static; NULL: the kind of operation */
    /* Where buffers are a device's: they are as they should be once this stream of it has come as
     * far as it is queued now. NULL: they are already. What is queued anywhere after the work is
     * done finds them as it left them. */
    struct device_stream *stream;
};

/* Caller's storage, from the call until comm_wait or a comm_test that says done. */
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
    COMM_CANONICAL_MAX = 64,
    COMM_LETTER_TAGS = 62, /* that any backend has */
};

/* Hooks are required unless said. Errors: -ETIMEDOUT, -ECONNABORTED, -EPROTO (another rank made
 * another call), -EIO with detail. Sizes are equal on all ranks unless said. */
struct comm_ops {
    const char *name; /* "self", "mpi", "tcp", "nccl" */

    /* Ranks of the same color (>= 0; negative: none, *ret_comm becomes NULL) form a new
     * communicator ordered by (key, rank). Blocks. Gives the communicator. -ENOBUFS of more than
     * 256 open at a time, of a process: on all ranks of the new one. */
    int (*split)(struct comm *comm, int color, int key, struct comm **ret_comm, struct err *err);

    /* receive[rank * bytes ...] = what each rank sent. send may lie in place at receive + rank *
     * bytes. */
    int (*all_gather)(struct comm *comm, const void *send, void *receive, size_t bytes,
                      const struct comm_options *options, struct comm_work *work, struct err *err);
    /* send: ranks slices of count elements; receive: the sum of this rank's slice over all ranks.
     * F32 and F64. COMM_FAST: after comm_prepare_fast, where more than one is in flight at a time.
     * -EBUSY where the canonical one COMM_CANONICAL_MAX before it (any, where the library has no
     * sums of its own) has not been waited for. -ENOTSUP of canonical sums in a device's memory,
     * where whoever wants them adds what an all_to_all brings. */
    int (*reduce_scatter)(struct comm *comm, const void *send, void *receive, size_t count,
                          enum dtype dtype, enum comm_order order,
                          const struct comm_options *options, struct comm_work *work,
                          struct err *err);
    /* In place, exact: flags, counts, the limbs of exact sums. What goes to others and comes from
     * them is the backend's own memory, so that the values, unlike other buffers, are the caller's
     * again after a failure too. */
    int (*all_reduce_i64)(struct comm *comm, int64_t *values, size_t count, enum comm_i64_op op,
                          const struct comm_options *options, struct comm_work *work,
                          struct err *err);
    /* send_bytes[r] bytes at send_offsets[r] go to rank r; the same for receiving. Zero sizes are
     * fine. */
    int (*all_to_all)(struct comm *comm, const void *send, const size_t *send_offsets,
                      const size_t *send_bytes, void *receive, const size_t *receive_offsets,
                      const size_t *receive_bytes, const struct comm_options *options,
                      struct comm_work *work, struct err *err);
    /* Messages: of a tag from 0 on, they arrive in order. -EINVAL of one that the backend does not
     * have: those below COMM_LETTER_TAGS any has. */
    int (*send)(struct comm *comm, const void *data, size_t bytes, int to, int tag,
                const struct comm_options *options, struct comm_work *work, struct err *err);
    int (*receive)(struct comm *comm, void *data, size_t bytes, int from, int tag,
                   const struct comm_options *options, struct comm_work *work, struct err *err);

    /* Never blocks; makes progress. 0 until the work is done, then its status: where it failed, the
     * detail is told by whichever call finds it so, and by no later one. */
    int (*test)(struct comm_work *work, bool *ret_done, struct err *err);
    /* Optional; default: comm_wait asks test again and again. Blocks until the work, which is not
     * done, is done or late; its status. */
    int (*wait)(struct comm_work *work, struct err *err);
    /* Optional: what this process does from now on, and in which step; other ranks are told so when
     * they wait for it. may_last: no deadline of theirs passes meanwhile, as while it waits for a
     * disk; each is put off by its own length. Any thread; what: static. */
    void (*note)(struct comm *comm, const char *what, uint64_t step, bool may_last);
    /* Optional: from now on a thread of the backend's own adds what it does to a track of the trace
     * (trace.h), which outlives the communicator and those that stem from it. Of several calls the
     * last counts. */
    void (*add_tracks)(struct comm *comm, struct trace *trace);
    /* Optional: how long a rank may be late or silent; 0, as before the first call: for ever. That
     * is the deadline of splits. Work without a deadline of its own waits as long as the ranks that
     * it waits for live: after that time, and again and again, they are asked, and one that then
     * gives no answer for as long ends the communicator, as a deadline does. Of the process: of
     * this communicator, those it stems from and those that stem from it. */
    void (*set_timeout)(struct comm *comm, uint64_t timeout_ns);
    /* Optional: 0, or -ECONNABORTED where the communicator was ended, by any rank, with who ended
     * it and why: for whoever waits for something else than its work. Never blocks. */
    int (*check)(struct comm *comm, struct err *err);
    void (*abort)(
        struct comm
            *comm); /* all work on it ends with -ECONNABORTED, here and on the other ranks */
    void (*close)(struct comm *comm);
    /* Optional: the name and version of what adds fast sums, "Open MPI v4.1.4", on which their bits
     * depend; "": nothing has. */
    void (*tell_library)(const struct comm *comm, char text[COMM_LIBRARY_BYTES]);
};

/* Backends embed it first. Immutable after open. */
struct comm {
    const struct comm_ops *ops;
    int rank, ranks;
    /* all_gather, reduce_scatter and all_to_all take memory of a device (comm_nccl.h) in place of
     * the host's. The others never do. */
    bool takes_device_memory;
};

/* Blocks until the work is done; its status. -ETIMEDOUT where the deadline passed first, naming
 * what was late. */
int comm_wait(struct comm *comm, struct comm_work *work, struct err *err);

/* Conveniences: the call and its wait. */
int comm_barrier(struct comm *comm, const struct comm_options *options, struct err *err);
/* Fast sums find what they need of the library, once a communicator: a library may have to meet the
 * others for it, and would start the first sum behind those after it. Nothing else is in flight. */
int comm_prepare_fast(struct comm *comm, const struct comm_options *options, struct err *err);
/* 0 on all ranks if status is 0 on all. Else -EREMOTEIO where only others failed, naming the first
 * of them; status where this one did, with its detail, which is emptied where it equals that of the
 * first: an error that ranks share is printed by one of them. */
int comm_agree(struct comm *comm, int status, const struct comm_options *options, struct err *err);

/* Never freed, and found by tools that look for leaks: a buffer of work that failed. From malloc
 * and its like; NULL is fine. */
void comm_retain(void *memory);

/* The backends, one file each; comm_mpi.h, comm_tcp.h and comm_nccl.h have the others. self is one
 * rank, on which everything is done when the call returns. */
int comm_self_open(struct comm **ret_comm, struct err *err);
void comm_close(struct comm *comm); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
