/*
 * tcp_meet — ranks that have nothing but an address of the first one find each other: a TCP connection between each two.
 *
 * The first rank listens at the first free one of TCP_MEET_PORTS ports behind `port` (before it, where there are none behind), which itself is its
 * owner's, such as torchrun's store; the others try these until one answers as ours. There they tell where they listen themselves, and hear where all
 * the others do, with a number that only this run knows. Before that nothing is read of a caller but a hello of fixed size, in a time of its
 * own; who says another one, or another token, is a stranger and is hung up on.
 */
#ifndef MILLRACE_COMM_TCP_MEET_H
#define MILLRACE_COMM_TCP_MEET_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdint.h>

enum { TCP_MEET_PORTS = 16, TCP_MEET_RANKS_MAX = 512 /* each has a connection to each */ };

struct tcp_meet_options {
    const char *address; /* of the first rank's machine: a name or a number */
    int port;
    int rank, ranks;
    uint64_t token;         /* of the run: ranks of others are strangers */
    uint64_t timeout_ns;    /* until all are there */
    const atomic_int *stop; /* not 0: give it up; NULL: there is none */
};

/* sockets: [ranks], those of the others, non-blocking; -1 at its own. Blocks. -ETIMEDOUT with who is missing, as far as that is known here; -EINTR where it is to stop; -ECONNABORTED or
 * -ECONNREFUSED where a rank has left; -EINVAL where
 * the address is none or ranks were told different numbers of them, -EADDRINUSE, or the system's. */
int tcp_meet(const struct tcp_meet_options *options, int *ret_sockets, struct err *err);

#endif
