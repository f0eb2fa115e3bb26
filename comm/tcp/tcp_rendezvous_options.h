/*
 * tcp_rendezvous_options — options of tcp_rendezvous.
 */
#ifndef MILLRACE_COMM_TCP_TCP_RENDEZVOUS_OPTIONS_H
#define MILLRACE_COMM_TCP_TCP_RENDEZVOUS_OPTIONS_H

#include "comm/tcp/tcp_secret.h"

#include <stdatomic.h>
#include <stdint.h>

enum { TCP_RENDEZVOUS_PORTS = 16 };

struct tcp_rendezvous_options {
    const char *address; /* host name or address of rank 0 */
    int port;
    int rank, ranks;
    uint64_t token;                  /* identifies the run */
    const struct tcp_secret *secret; /* NULL: none */
    uint64_t timeout_ns;             /* limit for all ranks to arrive */
    const atomic_int *stop;          /* nonzero: stop; NULL: none */
};

#endif
