/*
 * tcp_engine — the thread that moves messages between ranks over TCP: the engine (engine.h) of
 * comm_tcp.
 *
 * A message is a frame: its tag and length, then its bytes. What comes before it is wanted is kept;
 * the thread always reads, so that no rank waits for another's memory, and control frames of the
 * engine itself (questions to who is late, the end of the run) come through. So ranks must wait for
 * each other now and then: more than TCP_KEPT_BYTES_MAX of one rank that nobody wants yet end the
 * run by name. A connection that ends without a farewell, or whose other end no longer acknowledges
 * anything, is a rank that died: it ends the run, as a deadline that passes does, and as waiting
 * for a rank that has left.
 */
#ifndef MILLRACE_COMM_TCP_TCP_ENGINE_H
#define MILLRACE_COMM_TCP_TCP_ENGINE_H

#include "comm/engine/engine.h"

#define TCP_KEPT_BYTES_MAX                                                                         \
    (UINT64_C(16) << 30) /* of one rank's messages that came before they were wanted */

/* sockets: [ranks] of tcp_meet, which it takes, also where it fails. Closing it waits some seconds
 * for the others to close, too, unless the run was ended. */
int tcp_engine_open(int *sockets, int rank, int ranks, struct engine **ret_engine, struct err *err);

#endif
