/*
 * mpi_engine — the thread on which MPI runs, and the operations that it carries out for others.
 *
 *     op = mpi_engine_take(engine, err)             // an operation, blank
 *     mpi_op_plan(op, message) ...                  // what it sends and receives at first
 *     op->advance = ...                             // what follows when that is done; NULL: nothing
 *     mpi_engine_start(engine, op)                  // from here on the engine's
 *     mpi_engine_wait(engine, op) or _is_done       // until it is done
 *     mpi_engine_give(engine, op)
 *
 * An operation is a list of messages; when all have come and gone, `advance` looks at what came and may plan more:
 *
 *     planned -> posted (MPI_Isend, MPI_Irecv) -> all done -> advance -> planned more? -> ... -> done
 *
 * Waiting: while something is under way the engine asks MPI, first without a pause, then with pauses that grow with the time for which
 * nothing happened, from 20 us to 1 ms; so ranks that outnumber the cores leave them to those who compute. With nothing under way it
 * looks every 50 ms whether another rank has ended the run.
 *
 * Ending: a deadline that passes, an error of MPI, or mpi_engine_abort end everything here; the other ranks are told, and do the
 * same. From then on the engine never calls MPI. What was posted may still be read and written by others until the process exits: callers
 * keep their buffers (comm.h), and closing keeps the engine, its operations and their scratch.
 *
 * Threads: any, but mpi_op_plan from the operation's owner only: the caller until it is started, then the engine in advance.
 */
#ifndef MILLRACE_COMM_MPI_ENGINE_H
#define MILLRACE_COMM_MPI_ENGINE_H

#include "base/err.h"

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MPI_CONTEXTS_MAX = 256, /* communicators at a time, of a process */
    MPI_OP_TEXT_BYTES = 120,
};

struct mpi_engine;
struct trace;

/* To or from a rank of the world. Sends are never written to. */
struct mpi_message {
    void *data;
    size_t bytes;
    int peer, tag;
    bool is_send;
};

/* Caller's until started, the engine's until done, then the caller's again. */
struct mpi_op {
    struct mpi_op *next;
    struct mpi_engine *engine;

    struct mpi_message *messages; /* of this round: posted ones, then planned ones */
    MPI_Request *requests;
    int *indices;         /* for MPI_Testsome, as statuses */
    MPI_Status *statuses; /* [capacity] as the three above */
    size_t planned_count, posted_count, done_count, capacity;

    /* When a round is done, and at the start where nothing was planned. Plans what follows; nothing planned: the operation is done.
     * -errno ends the run. */
    int (*advance)(struct mpi_op *op, struct err *err);
    void *context; /* advance's */
    void *scratch; /* kept from operation to operation, as what is longest here: mpi_op_scratch */
    size_t scratch_bytes;
    uint64_t deadline_ns;
    char what[MPI_OP_TEXT_BYTES]; /* what is said to be late */
    const char *kind;             /* in a trace; static */
    uint64_t traced_ns;           /* when it was posted; 0: nobody traces it */
    uint64_t sent_bytes;          /* of all rounds */
    const int
        *world_ranks; /* of the communicator: rank -> rank of the world, for what is told of who is late */
    int ranks;

    bool is_done; /* guarded by the engine's mutex, as status and detail */
    int status;
    struct err detail;
};

/* Starts the thread and MPI. One at a time in a process, and none after one whose run was ended: -EBUSY. Collective. */
int mpi_engine_open(size_t message_bytes_max, struct mpi_engine **ret_engine, struct err *err);
/* Ends MPI unless the program had started it, or the run was ended. */
void mpi_engine_close(struct mpi_engine *engine);
int mpi_engine_rank(const struct mpi_engine *engine);
int mpi_engine_ranks(const struct mpi_engine *engine);
size_t mpi_engine_message_bytes_max(const struct mpi_engine *engine);
MPI_Comm mpi_engine_world(const struct mpi_engine *engine); /* the engine's own copy of it */

/* Names for communicators, this process's own: what is sent to it carries them. -ENOBUFS. */
int mpi_engine_name_context(struct mpi_engine *engine, int *ret_context, struct err *err);
void mpi_engine_forget_context(struct mpi_engine *engine, int context);
/* The tag of letters to a rank that calls the communicator `context`; letter: -1 for collectives. -1 where it is too large. */
int mpi_engine_tag(const struct mpi_engine *engine, int context, int letter);

/* -ECONNABORTED where the run has been ended, with who ended it and why. */
int mpi_engine_take(struct mpi_engine *engine, struct mpi_op **ret_op, struct err *err);
void mpi_engine_give(struct mpi_engine *engine, struct mpi_op *op);
/* Cuts what is long. -ENOMEM. */
int mpi_op_plan(struct mpi_op *op, const struct mpi_message *message);
/* Memory of the operation. NULL: none. */
void *mpi_op_scratch(struct mpi_op *op, size_t bytes);

void mpi_engine_start(struct mpi_engine *engine, struct mpi_op *op);
bool mpi_engine_is_done(struct mpi_engine *engine, struct mpi_op *op);
/* Blocks until it is done; its status and detail stand in it. */
void mpi_engine_wait(struct mpi_engine *engine, struct mpi_op *op);
/* -ECONNABORTED as above. */
int mpi_engine_check(struct mpi_engine *engine, struct err *err);
/* What this process is doing from now on, which other ranks are told where it is late; what lives for ever. */
void mpi_engine_note(struct mpi_engine *engine, const char *what, uint64_t number);
/* From now on the thread adds what it does to a track of the trace: each look at MPI in which something came or went, or that took its time, in it
 * what it posts and the next rounds of operations, and beside them each operation from its posting to its end. The trace outlives the engine. */
void mpi_engine_add_track(struct mpi_engine *engine, struct trace *trace);
/* Ends the run for that reason; returns when the other ranks were told, or can't be. */
void mpi_engine_abort(struct mpi_engine *engine, const char *why);

/* 0, or -EIO with MPI's own words. */
int mpi_check(int code, const char *what, struct err *err);

#endif
