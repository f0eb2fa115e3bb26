/*
 * tcp_rendezvous — ranks that have nothing but an address of the first one find each other: a TCP
 * connection between each two.
 *
 * The first rank listens at the first free one of TCP_RENDEZVOUS_PORTS ports behind `port` (before
 * it, where there are none behind), which itself is its owner's, such as torchrun's store; the
 * others try these until one answers as ours. There they tell where they listen themselves, and
 * hear where all the others do, with a number that only this run knows. Before that nothing is read
 * of a caller but a hello and a proof of fixed size (tcp_wire.h), in a time of its own; who says
 * another one, or another token, is a stranger and is hung up on.
 *
 * Rank 0 listens at those addresses that the run's address stands for and that are this machine's
 * own; the others at the address from which they reach rank 0. All interfaces are listened at only
 * where that is not known: where the address is none of rank 0's machine (it is translated on the
 * way), and where the name of a machine means a loopback address on the machine itself, as
 * /etc/hosts of Debian has it, and another one elsewhere.
 *
 * A rank is present while its connection is open. One that calls again replaces its earlier call.
 */
#ifndef MILLRACE_COMM_TCP_TCP_RENDEZVOUS_H
#define MILLRACE_COMM_TCP_TCP_RENDEZVOUS_H

#include "base/err.h"
#include "comm/tcp/tcp_options.h"

/* sockets: [ranks], those of the others, non-blocking; -1 at its own. Blocks. -ETIMEDOUT with who
 * is missing, as far as that is known here; -EINTR where it is to stop; -ECONNABORTED or
 * -ECONNREFUSED where a rank has left; -EINVAL where the address is none or ranks were told
 * different numbers of them, -EACCES where another rank has another secret or none, -EADDRINUSE, or
 * the system's. */
int tcp_rendezvous(const struct tcp_rendezvous_options *options, int *ret_sockets, struct err *err);

#endif
