/*
 * engine — a thread that moves messages between ranks on behalf of callers: the common part of the
 * engines of comm_mpi and comm_tcp.
 *
 * A backend's engine and operation structs begin with the two below. An operation moves a round of
 * messages. When all of them are done, `advance` processes what arrived and may plan another round:
 *
 *     callers                                                  the thread
 *     engine_op_acquire, plan, engine_start  ── queue ──>      posts and moves the messages,
 *                                                              advance -> more? ...
 *     engine_wait or engine_is_done          <── is_done ──    finish
 *     engine_op_release
 *
 * End of the run: a missed deadline, a failure, another rank's end, or engine_abort ends everything
 * in flight with -ECONNABORTED; the detail names the rank and its reason. The rank that failed
 * reports its own failure instead, and notifies the others. Nothing is queued after that. An
 * operation without a deadline is late after engine->timeout_ns, but fails only if a rank it waits
 * for does not answer.
 *
 * Threads: any, except where marked as the thread's. Only an operation's owner calls `plan`: the
 * caller until it starts, then the thread, in advance.
 */
#ifndef MILLRACE_COMM_ENGINE_ENGINE_H
#define MILLRACE_COMM_ENGINE_ENGINE_H

#include "base/err.h"
#include "comm/comm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ENGINE_WHY_BYTES = 240,
    ENGINE_WHAT_BYTES = 120,
    ENGINE_ACTIVITY_BYTES = 80,
    ENGINE_COMMS_MAX = 256, /* open at a time per process */
    ENGINE_ASKED_MAX = 3,   /* late ranks that are asked */
};

struct engine;
struct trace;
struct trace_track;

/* To or from a rank of the world. Sent data is never written to. */
struct engine_message {
    void *data;
    size_t bytes;
    uint64_t tag; /* messages between two ranks with one tag arrive in order */
    int peer;
    bool is_send;
};

/* Owned by the caller until started, by the thread until done, then by the caller again. */
struct engine_op {
    /* In the engine's lists; the engine's fields say what guards them. */
    struct engine_op *next, *next_made;
    struct engine *engine;
    size_t planned_count, done_count; /* messages of this round, counted by the backend */
    /* Called when all planned messages are done. Plans the next round; if it plans nothing, the
     * operation is done. NULL: no further round. -errno ends the run. */
    int (*advance)(struct engine_op *op, struct err *err);
    /* Reused by later operations, sized for the largest: engine_op_scratch. */
    void *scratch;
    size_t scratch_bytes;
    uint64_t deadline_ns; /* 0: none, but see heard_ns */
    /* Thread only: when the operation started, or its wait was last extended. */
    uint64_t heard_ns;
    char what[ENGINE_WHAT_BYTES]; /* names the operation in errors */
    const char *flight;           /* its name in a trace; static */
    uint64_t traced_ns;           /* when the thread took it over; 0: not traced */
    uint64_t sent_bytes;          /* as planned, over all rounds */
    uint64_t sum;                 /* of a deterministic sum: its bit in engine_comm */
    const int *world_ranks;       /* rank of the communicator -> rank of the world */
    int ranks;

    bool is_done; /* guarded by the engine's mutex, like status and detail */
    int status;
    struct err detail;
};

/* Backend hooks. Required unless marked optional. */
struct engine_ops {
    size_t op_bytes; /* size of the backend's operation, which is zeroed when allocated */
    void (*deinit)(struct engine_op *op);
    /* Adds the message to the round: planned_count. -ENOMEM. */
    int (*plan)(struct engine_op *op, const struct engine_message *message);
    /* Wakes the thread for requests from callers. Called without the mutex. */
    void (*wake)(struct engine *engine);
    void (*close)(struct engine *engine);

    /* Thread only, as all below. Starts all messages of the round. */
    int (*post)(struct engine_op *op, struct err *err);
    /* Optional: adds the messages that have completed to done_count, and returns their number or
     * -errno. NULL: the thread counts them as it moves them. */
    int (*poll)(struct engine_op *op, struct err *err);
    /* Asks a rank of the world for its activity, unless it was asked at since_ns or later or still
     * owes an answer. Never blocks. Returns its answer to that question (engine_answer), valid
     * until the next call; NULL: none yet. *ret_asked_ns: when it was last asked. */
    const char *(*inquire)(struct engine *engine, int rank, uint64_t since_ns,
                           uint64_t *ret_asked_ns);
    /* Whether a message to that rank of the world (is_send), or from it, is unfinished. */
    bool (*awaits)(const struct engine_op *op, int peer, bool is_send);
    /* Sends engine->why to the other ranks that accept it in time. */
    void (*notify_others)(struct engine *engine);
};

struct engine {
    const struct engine_ops *ops; /* immutable once open, like those down to comm_bytes */
    pthread_t thread;
    int rank, ranks; /* of the world */
    /* Each communicator owns the tags from its name * tags_count on. */
    uint64_t tags_count;
    unsigned names_count;            /* possible names, a multiple of ENGINE_COMMS_MAX */
    const struct comm_ops *comm_ops; /* of its communicators (engine_comm.h) */
    size_t comm_bytes;               /* size of a communicator */
    atomic_int comms_count;
    _Atomic uint64_t timeout_ns; /* comm.h, set_timeout */

    struct engine_op *active; /* thread only, like track */
    struct trace_track *track;

    pthread_mutex_t mutex;  /* guards all below */
    pthread_cond_t changed; /* signals callers that something is done */
    bool quit, abort_asked, ended;
    /* Reason for abort_asked, after which only the thread writes it; then for ended. */
    char why[ENGINE_WHY_BYTES];
    struct engine_op *queue_first, *queue_last, *unused, *made;
    struct trace_track *track_given;     /* the next value of track */
    bool name_is_used[ENGINE_COMMS_MAX]; /* by name % ENGINE_COMMS_MAX */
    unsigned name_next;                  /* names are reused as late as possible */
    const char *activity;
    uint64_t activity_step, activity_since_ns;
    bool activity_may_be_slow;
    uint64_t slow_until_ns; /* when something with may_be_slow ended after lasting long */
};

/* engine: zeroed; set rank, ranks, tags_count and names_count before use. */
void engine_init(struct engine *engine, const struct engine_ops *ops);
/* Also frees its operations. The thread must have ended. */
void engine_deinit(struct engine *engine);

/* Allocates a name for a communicator, unique in this process, for its tags. -ENOBUFS. */
int engine_alloc_name(struct engine *engine, unsigned *ret_name, struct err *err);
void engine_free_name(struct engine *engine, unsigned name);
/* Gets a blank operation. -ENOMEM; -ECONNABORTED, with the rank and its reason, if the run has
 * ended. */
int engine_op_acquire(struct engine *engine, struct engine_op **ret_op, struct err *err);
void engine_op_release(struct engine_op *op);
void engine_start(struct engine_op *op);
bool engine_is_done(struct engine_op *op);
/* Blocks until the operation is done; it holds its status and detail. */
void engine_wait(struct engine_op *op);
/* Returns 0 or -ECONNABORTED as above. */
int engine_check(struct engine *engine, struct err *err);
/* As comm.h. */
void engine_set_activity(struct engine *engine, const char *what, uint64_t step, bool may_be_slow);
/* The thread then records its work and each operation from start to end to a track of that name,
 * which is static. The trace outlives the engine. */
void engine_add_track(struct engine *engine, struct trace *trace, const char *name);
/* Ends the run. Returns once the other ranks have been notified or cannot be. */
void engine_abort(struct engine *engine, const char *why);
/* For `close`: ends the thread once nothing is left to do, and waits for it. */
void engine_quit(struct engine *engine);

/* Returns memory owned by the operation, or NULL. */
void *engine_op_scratch(struct engine_op *op, size_t bytes);

#endif
