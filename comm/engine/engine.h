/*
 * engine — a thread that moves messages between ranks for those who call it: what the engines of
 * comm_mpi and comm_tcp have in common.
 *
 * A backend's engine and its operation begin with these two; a table names what is its own, and
 * engine_thread.h has what the threads do alike. An operation is a list of messages, a round; when
 * all have come and gone, `advance` looks at what came and may plan more:
 *
 *     callers                                                     the thread
 *     engine_take, plan, engine_start        ── queue ──> takes them over, moves what is planned,
 *                                            advance -> more? ...
 *     engine_wait or engine_is_done          <── is_done ──       engine_finish
 *     engine_give
 *
 * The end of the run: a deadline that passes, whatever fails, another rank's word, or engine_abort
 * end all that is in flight here, with -ECONNABORTED and who ended it and why; at the rank whose
 * failure it is, with that failure. The other ranks are told, and do the same. From then on nothing
 * is handed over any more. Buffers stay borrowed (comm.h). An operation without a deadline is late,
 * too, once engine->timeout_ns has passed, but fails only if one of those whom it waits for then
 * does not answer.
 *
 * Threads: any, but what is said to be the thread's; `plan` from the operation's owner only: the
 * caller until it is started, then the thread in advance.
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
    ENGINE_DOING_BYTES = 80,
    ENGINE_COMMS_MAX = 256, /* open at a time, of a process */
    ENGINE_ASKED_MAX = 3,   /* of ranks that are late */
};

struct engine;
struct trace;
struct trace_track;

/* To or from a rank of the world. What is sent is never written to. */
struct engine_message {
    void *data;
    size_t bytes;
    uint64_t tag; /* those between two ranks with one tag arrive in order */
    int peer;
    bool is_send;
};

/* The caller's until started, the thread's until done, then the caller's again. */
struct engine_op {
    struct engine_op *next,
        *next_made; /* in the engine's lists, which are guarded as they say there */
    struct engine *engine;
    size_t planned_count, done_count; /* messages of this round, counted by the backend */
    /* When all that was planned has come and gone, and at the start where nothing was. Plans what
     * follows; nothing planned: the operation is done. NULL: nothing follows. -errno with detail
     * ends the run. */
    int (*advance)(struct engine_op *op, struct err *err);
    void
        *scratch; /* kept from operation to operation, as what is longest here: engine_op_scratch */
    size_t scratch_bytes;
    uint64_t deadline_ns; /* 0: none, but see heard_ns */
    uint64_t
        /* the thread's: when it was started, or when the ranks that it waits for last answered in a
         * way that lets it wait on */
        heard_ns;
    char what[ENGINE_WHAT_BYTES]; /* what is said to be late */
    const char *flight;           /* its name in a trace; static */
    uint64_t traced_ns;           /* when the thread took it over; 0: nobody traces it */
    uint64_t sent_bytes;          /* as planned, of all rounds */
    uint64_t sum;                 /* of a canonical sum: engine_comm's bit for it; else 0 */
    const int *world_ranks;       /* of the communicator: rank -> rank of the world */
    int ranks;

    bool is_done; /* guarded by the engine's mutex, as status and detail */
    int status;
    struct err detail;
};

/* What is a backend's own. Hooks are required unless said. */
struct engine_ops {
    size_t op_bytes; /* of its operation, all zero when it is made */
    /* Optional: what is its own is blank again, but for messages that are planned; memory kept. */
    void (*clear)(struct engine_op *op);
    void (*deinit)(struct engine_op *op);
    /* Adds it to the round: planned_count. -ENOMEM. */
    int (*plan)(struct engine_op *op, const struct engine_message *message);
    /* The thread looks again at what callers ask for. The mutex is not held. */
    void (*wake)(struct engine *engine);
    void (*close)(struct engine *engine);

    /* The thread's, as all below (engine_thread.h). Sets all messages of the round on their way,
     * once a round. -errno with detail. */
    int (*post)(struct engine_op *op, struct err *err);
    /* Optional: asks which of the round's messages have come or gone, and counts them as done; how
     * many. -errno with detail. NULL: the thread counts them as it moves them. */
    int (*ask)(struct engine_op *op, struct err *err);
    /* It is due (engine_due_ns): asks those who are late what they do, and then tells
     * engine_fail_late; where that takes longer, in a later call. For who gives no answer it waits
     * a second, or, where the operation has no deadline, engine->timeout_ns. */
    void (*fail_late)(struct engine_op *op);
    /* Whether a message to that rank of the world, or from it, is not done. */
    bool (*awaits)(const struct engine_op *op, int peer, bool is_send);
    /* engine->why to each other rank, as far as they take it in time. */
    void (*tell_others)(struct engine *engine);
};

struct engine {
    const struct engine_ops *ops; /* immutable once open, as those down to comm_bytes */
    pthread_t thread;
    int rank, ranks; /* of the world */
    uint64_t
        tags_count; /* that a communicator has to itself: those from its name * tags_count on, */
    unsigned names_count;            /* of so many names, a multiple of ENGINE_COMMS_MAX */
    const struct comm_ops *comm_ops; /* of its communicators (engine_comm.h), */
    size_t comm_bytes;               /* and what each takes */
    atomic_int comms_count;
    _Atomic uint64_t timeout_ns; /* comm.h, set_timeout */

    struct engine_op *active; /* the thread's, as track */
    struct trace_track *track;

    pthread_mutex_t mutex;  /* guards all below */
    pthread_cond_t changed; /* callers: something is done */
    bool quit, abort_asked, ended;
    char why
        /* of abort_asked, from which on only the thread writes it; then of ended */
        [ENGINE_WHY_BYTES];
    struct engine_op *queue_first, *queue_last, *unused, *made;
    struct trace_track *track_given;     /* what track is to be */
    bool name_is_used[ENGINE_COMMS_MAX]; /* by name % ENGINE_COMMS_MAX */
    unsigned name_next;                  /* names are used again as late as possible */
    const char *doing;
    uint64_t doing_number, doing_since_ns;
    bool doing_may_last;
    uint64_t lasted_until_ns; /* when something that may last, and did, ended */
};

/* engine: blank; its rank, ranks, tags_count and names_count are set before it is used. */
void engine_init(struct engine *engine, const struct engine_ops *ops);
/* And its operations, also those that nobody waited for. The thread has ended. */
void engine_deinit(struct engine *engine);

/* Callers: a name for a communicator, this process's own: what is sent to it carries that.
 * -ENOBUFS. */
int engine_name(struct engine *engine, unsigned *ret_name, struct err *err);
void engine_forget_name(struct engine *engine, unsigned name);
/* Callers: a blank operation. -ENOMEM; -ECONNABORTED where the run has been ended, with who ended
 * it and why. */
int engine_take(struct engine *engine, struct engine_op **ret_op, struct err *err);
void engine_give(struct engine_op *op);
void engine_start(struct engine_op *op);
bool engine_is_done(struct engine_op *op);
/* Blocks until it is done; its status and detail stand in it. */
void engine_wait(struct engine_op *op);
/* -ECONNABORTED as above. */
int engine_check(struct engine *engine, struct err *err);
/* As comm.h's note. */
void engine_note(struct engine *engine, const char *what, uint64_t number, bool may_last);
/* From now on the thread adds what it does to a track of that name: `progress`, where something
 * came or went or took its time, in it what it posts and the next rounds of operations, and beside
 * them each operation from its start to its end. name is static; the trace outlives the engine. */
void engine_add_track(struct engine *engine, struct trace *trace, const char *name);
/* Ends the run for that reason; returns when the other ranks were told, or can't be. */
void engine_abort(struct engine *engine, const char *why);
/* For `close`: tells the thread to end when nothing is left to do, and waits for that. */
void engine_quit(struct engine *engine);

/* Memory of the operation. NULL: none. */
void *engine_op_scratch(struct engine_op *op, size_t bytes);

#endif
