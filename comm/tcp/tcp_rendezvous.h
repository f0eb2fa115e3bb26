/*
 * tcp_rendezvous — connects all ranks to each other by TCP, given only the address of the first
 * rank.
 *
 * Rank 0 listens at the first free one of the TCP_RENDEZVOUS_PORTS ports after `port` (before it,
 * if none are after); `port` itself belongs to torchrun's store. The other ranks try these ports
 * until one answers as part of this run. They report where they listen, and receive the addresses
 * of all others and a number known only to this run. Before that, only a hello and a proof of fixed
 * size (tcp_wire.h) are read from a connection, within a time limit. A connection that sends
 * anything else, or another token, is closed.
 *
 * Rank 0 listens at those of the run's addresses that belong to its machine; the others at the
 * address from which they reach rank 0. They use all interfaces only if that address is unknown:
 * because of address translation, or because a machine resolves its own name to a loopback address
 * (Debian's /etc/hosts).
 *
 * A rank is present while its connection is open. A new connection replaces a rank's earlier one.
 */
#ifndef MILLRACE_COMM_TCP_TCP_RENDEZVOUS_H
#define MILLRACE_COMM_TCP_TCP_RENDEZVOUS_H

#include "base/err.h"
#include "comm/tcp/tcp_options.h"

/* ret_sockets: [ranks], non-blocking; -1 for this rank. Blocks. -ETIMEDOUT with the missing ranks,
 * as far as known here; -EINTR: stopped; -ECONNABORTED or -ECONNREFUSED: a rank has left; -EINVAL:
 * the address is invalid, or ranks were given different numbers of ranks; -EACCES: another rank has
 * a different secret or none; -EADDRINUSE, or a system error. */
int tcp_rendezvous(const struct tcp_rendezvous_options *options, int *ret_sockets, struct err *err);

#endif
