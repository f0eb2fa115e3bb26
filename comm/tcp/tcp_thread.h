/*
 * tcp_thread — internals of tcp_engine: the thread and its connections.
 */
#ifndef MILLRACE_COMM_TCP_TCP_THREAD_H
#define MILLRACE_COMM_TCP_TCP_THREAD_H

#include "comm/tcp/tcp_engine.h"
#include "comm/tcp/tcp_wire.h"

/* Owned by the thread while the thread owns its operation. */
struct tcp_message {
    char *data;
    struct tcp_frame frame;
    int peer; /* world rank; may be this process's own */
    bool is_send, is_done;
    struct tcp_op *op;
    struct tcp_message *next;
};

struct tcp_op {
    struct engine_op base;
    struct tcp_message *messages; /* of this round */
    size_t capacity;
};

/* A message that arrived before its receive was posted. */
struct tcp_unexpected {
    struct tcp_unexpected *next;
    struct tcp_frame frame;
    bool is_complete;
    struct tcp_message *receiver; /* matched while incomplete */
    char *data;
    /* data grows as bytes arrive, so that an invalid length cannot cause a large allocation. */
    uint64_t capacity;
};

/* The connection to a rank; thread only. */
struct tcp_peer {
    int rank;
    int socket; /* -1: this rank itself, or closed */
    bool has_left;
    struct tcp_message *sends_first, *sends_last;
    size_t sent_bytes; /* of the first message, including its frame */
    struct {
        struct tcp_frame frame;
        char text[TCP_CONTROL_BYTES];
        size_t sent_bytes;
        bool is_due;
    } controls[TCP_CONTROL_COUNT]; /* sent between messages */
    struct tcp_message *posted_first, *posted_last;
    struct tcp_unexpected *unexpected_first, *unexpected_last;
    uint64_t unexpected_bytes;                 /* of unexpected messages */
    struct tcp_frame frame;                    /* being received */
    enum tcp_control control;                  /* of the frame, if it is a control frame */
    size_t received_bytes;                     /* of the frame and its data */
    struct tcp_message *matched_receive;       /* destination of the data: a posted receive, */
    struct tcp_unexpected *unexpected_message; /* an unexpected message, */
    char control_text[TCP_CONTROL_BYTES];      /* or a control frame's text */
    uint64_t queried_ns;                       /* 0: never */
    bool has_replied;                          /* to the last query */
    char answer[TCP_CONTROL_BYTES];
};

struct tcp_engine {
    struct engine base;
    /* [ranks]; the pointer and wake are immutable after open; the thread owns the contents. */
    struct tcp_peer *peers;
    int wake;            /* an eventfd */
    uint64_t checked_ns; /* last check for lost machines; thread only */
};

static inline struct tcp_engine *tcp_engine_of(struct engine *engine)
{
    return (struct tcp_engine *)engine;
}

static inline struct tcp_op *tcp_op_of(struct engine_op *op)
{
    return (struct tcp_op *)op;
}

/* argument: the engine. */
void *tcp_thread_main(void *argument);
/* Hooks of engine_ops. */
void tcp_thread_notify_others(struct engine *engine);
const char *tcp_thread_query_activity(struct engine *engine, int rank, uint64_t since_ns,
                                      uint64_t *ret_queried_ns);

/* tcp_peer.c, thread only: */

/* Queues a control frame; at most one of each kind. */
void tcp_peer_queue_control(struct tcp_peer *peer, enum tcp_control control, const char *text);
/* Starts a send or receive. -EPROTO: the received message has a different length. -ECONNABORTED:
 * the rank has left. */
int tcp_peer_post(struct tcp_peer *peer, struct tcp_message *message, bool is_self,
                  struct err *err);
bool tcp_peer_has_unsent(const struct tcp_peer *peer);
/* Sends without blocking. run_ended: sends only control frames and the rest of a partly sent
 * message. -EPIPE: the connection is closed. */
int tcp_peer_send(struct tcp_peer *peer, bool run_ended);
/* True if sent data is not acknowledged yet. */
bool tcp_peer_has_unacked(const struct tcp_peer *peer);
/* Receives at most one frame, without blocking. Returns 1 for a control frame (*ret_control,
 * peer->control_text), else 0; -EPIPE; -EPROTO, -ENOBUFS or -ENOMEM with detail. */
int tcp_peer_receive(struct tcp_peer *peer, enum tcp_control *ret_control, bool *ret_more,
                     struct err *err);
/* True if the other machine has acknowledged nothing for over a minute. It still acknowledges
 * data for a stopped process. */
bool tcp_peer_is_lost(const struct tcp_peer *peer);
void tcp_peer_deinit(struct tcp_peer *peer);

#endif
