/*
 * tcp_rendezvous — connects all ranks to each other over TCP, given the address of rank 0.
 *
 * Rank 0 listens on the first free port among the TCP_RENDEZVOUS_PORTS after `port` (or before it,
 * if no ports exist after it); torchrun's store uses `port` itself. The other ranks try these ports
 * until a rank of this run answers. They report their listening ports and receive all addresses and
 * a random run number. Before that, a connection may only send a fixed-size hello and proof
 * (tcp_wire.h), within a time limit; otherwise it is closed.
 *
 * Rank 0 listens on the run's addresses that belong to its machine, the others on the address from
 * which they reach rank 0. They listen on all interfaces only if that address is unknown, because
 * of address translation or because a machine resolves its own name to a loopback address (Debian's
 * /etc/hosts).
 *
 * A rank is present while its connection is open. A new connection replaces an earlier one.
 */
#ifndef MILLRACE_COMM_TCP_TCP_RENDEZVOUS_H
#define MILLRACE_COMM_TCP_TCP_RENDEZVOUS_H

#include "base/err.h"
#include "comm/tcp/tcp_rendezvous_options.h"

/* Blocks. ret_sockets: [ranks], non-blocking; -1 for this rank. -ETIMEDOUT names the missing ranks,
 * if known; -EINTR: stopped; -ECONNABORTED, -ECONNREFUSED: a rank has left; -EINVAL: the address is
 * invalid, or the numbers of ranks differ; -EACCES: the secrets differ; -EADDRINUSE or another
 * system error. */
int tcp_rendezvous(const struct tcp_rendezvous_options *options, int *ret_sockets, struct err *err);

#endif
