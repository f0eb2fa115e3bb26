/*
 * tcp_options — what a rank is given to find the others over TCP. See tcp_rendezvous.h.
 */
#ifndef MILLRACE_COMM_TCP_TCP_OPTIONS_H
#define MILLRACE_COMM_TCP_TCP_OPTIONS_H

#include "comm/tcp/tcp_secret.h"

#include <stdatomic.h>
#include <stdint.h>

enum { TCP_RENDEZVOUS_PORTS = 16 };

struct tcp_rendezvous_options {
    const char *address; /* of the first rank's machine: a name or a number */
    int port;
    int rank, ranks;
    uint64_t token;                  /* of the run: ranks of others are strangers */
    const struct tcp_secret *secret; /* that all ranks prove to each other; NULL: there is none */
    uint64_t timeout_ns;             /* until all are there */
    const atomic_int *stop;          /* not 0: give it up; NULL: there is none */
};

#endif
