/*
 * tcp_options — what a rank needs to find the others over TCP. See tcp_rendezvous.h.
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
    uint64_t token;                  /* identifies the run; ranks of others are strangers */
    const struct tcp_secret *secret; /* all ranks prove it to each other; NULL: none */
    uint64_t timeout_ns;             /* for all ranks to arrive */
    const atomic_int *stop;          /* nonzero: give up; NULL: none */
};

#endif
