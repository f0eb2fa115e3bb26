/*
 * tcp_engine — the thread that moves messages between ranks over TCP: the engine (engine.h) of
 * comm_tcp.
 *
 * A message is a frame (its tag and length), then its bytes. The thread always reads, and keeps
 * unexpected messages, so control frames (questions to late ranks, the end of the run) get through.
 * These end the run: more than TCP_KEPT_BYTES_MAX of unexpected messages from one rank, a
 * connection that ends without a goodbye or whose other end no longer acknowledges anything, a
 * missed deadline, and waiting for a rank that has left.
 */
#ifndef MILLRACE_COMM_TCP_TCP_ENGINE_H
#define MILLRACE_COMM_TCP_TCP_ENGINE_H

#include "comm/engine/engine.h"

/* Of one rank's unexpected messages. */
#define TCP_KEPT_BYTES_MAX (UINT64_C(16) << 30)

/* sockets: [ranks] from tcp_rendezvous; ownership passes to the engine, even on failure. Closing
 * waits some seconds for the others to close too, unless the run was ended. */
int tcp_engine_open(int *sockets, int rank, int ranks, struct engine **ret_engine, struct err *err);

#endif
