/*
 * tcp_thread — the engine from within: what its thread and its callers share, and the connection to
 * each other rank. See tcp_engine.h.
 */
#ifndef MILLRACE_COMM_TCP_TCP_THREAD_H
#define MILLRACE_COMM_TCP_TCP_THREAD_H

#include "comm/tcp/tcp_engine.h"
#include "comm/tcp/tcp_wire.h"

/* The thread's, once its operation is. */
struct tcp_message {
    char *data;
    struct tcp_frame frame;
    int peer; /* rank of the world, which may be this one */
    bool is_send, is_done;
    struct tcp_op *op;
    struct tcp_message *next;
};

struct tcp_op {
    struct engine_op base;
    struct tcp_message *messages; /* of this round */
    size_t capacity;
    uint64_t asked_ns; /* when those who were late were asked; 0: nobody was */
    int asked[ENGINE_ASKED_MAX], asked_count; /* ranks of the communicator */
};

/* A message that came before it was wanted. */
struct tcp_unexpected {
    struct tcp_unexpected *next;
    struct tcp_frame frame;
    bool has_come;
    struct tcp_message *wanted; /* by this one, since */
    char *data;
    uint64_t
        /* of data, which grows as bytes come: a length that another rank tells is no reason to
         * allocate it */
        capacity;
};

/* The connection to a rank; the thread's. */
struct tcp_peer {
    int rank;
    int socket; /* -1: this rank itself, or closed */
    bool has_left;
    struct tcp_message *sends_first, *sends_last;
    size_t sent; /* of the first: frame and data */
    struct {
        struct tcp_frame frame;
        char text[TCP_WORDS_BYTES];
        size_t sent;
        bool is_due;
    } controls[TCP_CONTROL_COUNT]; /* to be sent between messages */
    struct tcp_message *wanted_first, *wanted_last;
    struct tcp_unexpected *unexpected_first, *unexpected_last;
    uint64_t kept_bytes;               /* of the unexpected messages */
    struct tcp_frame frame;            /* of what is being received */
    enum tcp_control control;          /* where it is the engine's own */
    size_t got;                        /* of it: frame and data */
    struct tcp_message *to;            /* where it goes: a message that wants it, */
    struct tcp_unexpected *unexpected; /* or is kept, */
    char heard[TCP_WORDS_BYTES];       /* or is the engine's own */
    bool has_answered;
    char answer[TCP_WORDS_BYTES];
};

struct tcp_engine {
    struct engine base;
    struct tcp_peer
        *peers;         /* [ranks]; immutable after open, as wake; what they hold is the thread's */
    int wake;           /* an eventfd */
    uint64_t looked_ns; /* when connections were looked at; the thread's */
};

static inline struct tcp_engine *tcp_engine_of(struct engine *engine)
{
    return (struct tcp_engine *)engine;
}

static inline struct tcp_op *tcp_op_of(struct engine_op *op)
{
    return (struct tcp_op *)op;
}

/* The thread: carries out what comes until quit, then parts from the others. argument: the
 * engine. */
void *tcp_thread_main(void *argument);
/* Hooks of engine_ops. */
void tcp_thread_tell_others(struct engine *engine);
void tcp_thread_fail_late(struct engine_op *op);

/* tcp_peer.c: the thread's. */

/* Queues a control frame; one of a kind at a time. */
void tcp_peer_say(struct tcp_peer *peer, enum tcp_control control, const char *text);
/* Takes a message to send or to receive; what it wants may have come already. -EPROTO where that
 * has another length; -ECONNABORTED where the rank has left. */
int tcp_peer_take(struct tcp_peer *peer, struct tcp_message *message, bool is_self,
                  struct err *err);
bool tcp_peer_has_to_send(const struct tcp_peer *peer);
/* As far as it goes at once. is_end: control frames alone, and what is half sent. 0, or -EPIPE
 * where the connection has ended. */
int tcp_peer_send(struct tcp_peer *peer, bool is_end);
/* Words that the other machine has not acknowledged yet, as far as that can be known. */
bool tcp_peer_has_unheard(const struct tcp_peer *peer);
/* As far as it goes at once, but no more than one frame: 1 where a control frame came
 * (*ret_control, peer->heard), 0 else; -EPIPE; -EPROTO, -ENOBUFS or -ENOMEM with detail. */
int tcp_peer_receive(struct tcp_peer *peer, enum tcp_control *ret_control, bool *ret_more,
                     struct err *err);
/* What was sent to it has not been acknowledged for more than a minute, nor has anything else: its
 * machine is gone, or the way to it. A process that is stopped is not, whose machine answers. */
bool tcp_peer_is_lost(const struct tcp_peer *peer);
void tcp_peer_deinit(struct tcp_peer *peer);

#endif
