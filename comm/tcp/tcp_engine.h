/*
 * tcp_engine — the engine (engine.h) of comm_tcp.
 *
 * A message is a frame (tag and length), followed by its bytes. The thread always reads and stores
 * unexpected messages, so they do not block control frames (inquiries, the end of the run). The run
 * ends if a rank's unexpected messages exceed TCP_UNEXPECTED_BYTES_MAX, a connection closes without
 * a goodbye or stops acknowledging data, a deadline is missed, or an operation needs a rank that
 * has left.
 */
#ifndef MILLRACE_COMM_TCP_TCP_ENGINE_H
#define MILLRACE_COMM_TCP_TCP_ENGINE_H

#include "comm/engine/engine.h"

/* Limit on the unexpected messages from one sender. */
#define TCP_UNEXPECTED_BYTES_MAX (UINT64_C(16) << 30)

/* sockets: [ranks] from tcp_rendezvous; the engine takes ownership, even on failure. Closing
 * waits a few seconds for the other ranks to close, unless the run has ended. */
int tcp_engine_open(int *sockets, int rank, int ranks, struct engine **ret_engine, struct err *err);

#endif
