/*
 * engine — a thread that moves messages between ranks: the common part of comm_mpi and comm_tcp.
 *
 * Each backend's structs embed struct engine and struct engine_op as their first members. An
 * operation moves a round of messages. When all of them are done, `advance` processes the received
 * data and may plan another round:
 *
 *     callers                                                  the thread
 *     engine_op_acquire, plan, engine_start  ── queue ──>      posts and moves the messages,
 *                                                              advance -> more? ...
 *     engine_wait or engine_is_done          <── is_done ──    finish
 *     engine_op_release
 *
 * End of the run: a missed deadline, a failure, the end of another rank, or an abort ends all
 * operations with -ECONNABORTED; the detail names the rank and its reason. The failed rank reports
 * its own failure instead and notifies the others. Nothing can be queued afterwards. An operation
 * without a deadline is late after engine->timeout_ns, but fails only if a rank does not answer.
 *
 * Threads: functions may be called from any thread unless marked thread only. Only an operation's
 * owner calls `plan`: the caller until it starts, then the thread, in advance.
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
    ENGINE_REASON_BYTES = 240,
    ENGINE_PURPOSE_BYTES = 120,
    ENGINE_ACTIVITY_BYTES = 80,
    ENGINE_COMMS_MAX = 256, /* open at once per process */
    ENGINE_QUERIED_MAX = 3, /* late ranks queried per operation */
};

struct engine;
struct trace;
struct trace_track;

/* Sent data is never modified. */
struct engine_message {
    void *data;
    size_t bytes;
    uint64_t tag; /* messages with the same ranks and tag arrive in order */
    int peer;
    bool is_send;
};

/* Owned by the thread from start until done, otherwise by the caller. */
struct engine_op {
    /* Links in the engine's lists, guarded like those lists. */
    struct engine_op *next, *next_allocated;
    struct engine *engine;
    size_t planned_count, done_count; /* of this round's messages, counted by the backend */
    /* Called when all planned messages are done. Plans the next round; the operation is done if
     * it plans nothing. NULL: one round. -errno ends the run. */
    int (*advance)(struct engine_op *op, struct err *err);
    /* Reused by later operations (engine_op_scratch). */
    void *scratch;
    size_t scratch_bytes;
    uint64_t deadline_ns; /* 0: none, but see wait_began_ns */
    /* Thread only: the start of the operation, or the last extension of its wait. */
    uint64_t wait_began_ns;
    char purpose[ENGINE_PURPOSE_BYTES]; /* names the operation in errors */
    const char *trace_name;             /* names the operation in a trace; static */
    uint64_t trace_began_ns;            /* when the thread started it; 0: not traced */
    uint64_t sent_bytes;                /* in all rounds */
    uint64_t sum_bit;                   /* bit of a deterministic sum in sums_in_flight */
    const int *world_ranks;             /* [rank of the communicator] */
    int ranks;

    bool is_done; /* guarded by the engine's mutex, like status and detail */
    int status;
    struct err detail;
};

/* Backend hooks. Required unless marked optional. */
struct engine_ops {
    size_t op_bytes; /* size of the backend's operation, which is allocated zeroed */
    void (*deinit)(struct engine_op *op);
    /* Adds the message to the round (planned_count). */
    int (*plan)(struct engine_op *op, const struct engine_message *message);
    /* Wakes the thread. Called without the mutex. */
    void (*wake)(struct engine *engine);
    void (*close)(struct engine *engine);

    /* Thread only, like all hooks below. Starts all messages of the round. */
    int (*post)(struct engine_op *op, struct err *err);
    /* Adds the number of newly completed messages to done_count and returns it, or -errno.
     * Optional: the thread may count them as it moves them. */
    int (*poll)(struct engine_op *op, struct err *err);
    /* Queries a rank of the world, unless it was queried at since_ns or later or has not replied
     * yet. Does not block. Returns its reply (engine_format_activity), valid until the next call;
     * NULL: none yet. *ret_queried_ns: time of the last query. */
    const char *(*query_activity)(struct engine *engine, int rank, uint64_t since_ns,
                                  uint64_t *ret_queried_ns);
    /* True if a message to (is_send) or from that rank of the world is unfinished. */
    bool (*has_unfinished)(const struct engine_op *op, int peer, bool is_send);
    /* Sends engine->reason to the other ranks, within a time limit. */
    void (*notify_others)(struct engine *engine);
};

struct engine {
    const struct engine_ops *ops; /* immutable after open, like all members down to comm_bytes */
    pthread_t thread;
    int rank, ranks; /* of the world */
    /* Each communicator owns tags_count tags, starting at its id * tags_count. */
    uint64_t tags_count;
    unsigned comm_ids_count;         /* a multiple of ENGINE_COMMS_MAX */
    const struct comm_ops *comm_ops; /* see engine_comm.h */
    size_t comm_bytes;
    atomic_int comms_count;
    _Atomic uint64_t timeout_ns; /* see set_timeout in comm.h */

    struct engine_op *active_ops; /* thread only, like track */
    struct trace_track *track;

    pthread_mutex_t mutex;     /* guards all members below */
    pthread_cond_t completion; /* signaled to callers */
    bool quit_requested, abort_requested, has_ended;
    /* Why the run was or will be ended. After abort_requested is set, only the thread writes it. */
    char reason[ENGINE_REASON_BYTES];
    struct engine_op *queue_first, *queue_last, *unused_ops, *allocated_ops;
    struct trace_track *next_track;         /* next value of track */
    bool comm_id_is_used[ENGINE_COMMS_MAX]; /* [id % ENGINE_COMMS_MAX] */
    unsigned next_comm_id;                  /* delays reuse of ids */
    const char *activity;
    uint64_t activity_step, activity_since_ns;
    bool activity_may_be_slow;
    uint64_t slow_until_ns; /* end of the last long activity with may_be_slow */
};

/* engine: zeroed; set rank, ranks, tags_count and comm_ids_count before use. */
void engine_init(struct engine *engine, const struct engine_ops *ops);
/* Also frees operations. The thread must have ended. */
void engine_deinit(struct engine *engine);

/* Allocates a communicator id, unique in this process. -ENOBUFS: all are in use. */
int engine_alloc_comm_id(struct engine *engine, unsigned *ret_id, struct err *err);
void engine_free_comm_id(struct engine *engine, unsigned id);
/* Returns a blank operation. -ECONNABORTED, with the rank and its reason, if the run has ended. */
int engine_op_acquire(struct engine *engine, struct engine_op **ret_op, struct err *err);
void engine_op_release(struct engine_op *op);
void engine_start(struct engine_op *op);
bool engine_is_done(struct engine_op *op);
/* Blocks until the operation is done. */
void engine_wait(struct engine_op *op);
/* -ECONNABORTED as above. */
int engine_check(struct engine *engine, struct err *err);
/* Waits until nothing is left to do, and joins the thread. */
void engine_quit(struct engine *engine);

/* Returns memory owned by the operation, or NULL. */
void *engine_op_scratch(struct engine_op *op, size_t bytes);

#endif
