/*
 * tcp_engine — the thread that moves messages between ranks over TCP, and the operations that it carries out for others.
 *
 *     tcp_engine_take(engine, &op, err);        // an operation, blank
 *     tcp_op_plan(op, &message) ...             // what it sends and receives
 *     tcp_engine_start(engine, op);
 *     tcp_engine_wait(engine, op);              // or ask tcp_engine_is_done; then status and detail stand in it
 *     tcp_engine_give(engine, op);
 *
 * A message is a frame: its tag and length, then its bytes. Between two ranks those of one tag arrive in order. What comes before it is
 * wanted is kept; the thread always reads, so that no rank waits for another's memory, and words of the engine itself (questions to who is late, the
 * end of the run) come through. So ranks must wait for each other now and then: more than TCP_KEPT_BYTES_MAX of one rank that nobody wants yet end the run by name.
 * A connection that ends without a farewell, or whose other end no longer acknowledges anything, is a rank that died: it ends the run, as a deadline that
 * passes does, and as waiting for a rank that has left.
 */
#ifndef MILLRACE_COMM_TCP_ENGINE_H
#define MILLRACE_COMM_TCP_ENGINE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TCP_WHAT_BYTES = 64 };
#define TCP_KEPT_BYTES_MAX (UINT64_C(16) << 30) /* of one rank's messages that came before they were wanted */

struct tcp_engine;
struct tcp_op;

struct tcp_frame {
    uint64_t tag, bytes;
};

struct tcp_message {
    char *data;
    struct tcp_frame frame;
    int peer; /* rank of the world, which may be this one */
    bool is_send;
    bool is_done; /* the thread's, as those below */
    struct tcp_op *op;
    struct tcp_message *next;
};

/* The caller's until it is started and once it is done; else the thread's. */
struct tcp_op {
    struct tcp_op *next, *next_made;
    struct tcp_engine *engine;
    struct tcp_message *messages;
    size_t count, capacity, done_count;
    void (*finish)(struct tcp_op *op); /* when all has come, on the thread; NULL: nothing */
    void *scratch;
    size_t scratch_bytes;
    uint64_t deadline_ns; /* 0: none */
    uint64_t asked_ns;    /* when who is late was asked; 0: nobody was */
    char what[TCP_WHAT_BYTES];
    const int *world_ranks; /* of the communicator: rank -> rank of the world */
    int ranks;
    bool is_done; /* guarded by the engine's mutex, as status and detail */
    int status;
    struct err detail;
};

/* sockets: [ranks] of tcp_meet, which it takes, also where it fails. */
int tcp_engine_open(int *sockets, int rank, int ranks, struct tcp_engine **ret_engine, struct err *err);
/* Waits some seconds for the others to close, too, unless the run was ended. */
void tcp_engine_close(struct tcp_engine *engine);
/* A name for a communicator, this process's own; 0 is that of all ranks. */
uint32_t tcp_engine_name(struct tcp_engine *engine);

/* -ECONNABORTED where the run has been ended, with who ended it and why. */
int tcp_engine_take(struct tcp_engine *engine, struct tcp_op **ret_op, struct err *err);
void tcp_engine_give(struct tcp_engine *engine, struct tcp_op *op);
/* data, frame, peer and is_send are used. -ENOMEM. */
int tcp_op_plan(struct tcp_op *op, const struct tcp_message *message);
/* Memory of the operation. NULL: none. */
void *tcp_op_scratch(struct tcp_op *op, size_t bytes);

void tcp_engine_start(struct tcp_engine *engine, struct tcp_op *op);
bool tcp_engine_is_done(struct tcp_engine *engine, struct tcp_op *op);
void tcp_engine_wait(struct tcp_engine *engine, struct tcp_op *op);
/* -ECONNABORTED as above. */
int tcp_engine_check(struct tcp_engine *engine, struct err *err);
/* What this process is doing from now on, which other ranks are told where it is late; what lives for ever. */
void tcp_engine_note(struct tcp_engine *engine, const char *what, uint64_t number);
/* Ends the run; returns when the other ranks were told, or can't be. */
void tcp_engine_abort(struct tcp_engine *engine, const char *why);

#endif
