/*
 * tcp_bootstrap — rendezvous internals: accepting (tcp_pending.c) and making (tcp_rendezvous.c)
 * connections. See tcp_rendezvous.h.
 */
#ifndef MILLRACE_COMM_TCP_TCP_BOOTSTRAP_H
#define MILLRACE_COMM_TCP_TCP_BOOTSTRAP_H

#include "base/clock.h"
#include "comm/tcp/tcp_options.h"
#include "comm/tcp/tcp_wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define TCP_HELLO_NS (2 * CLOCK_NS_PER_S) /* for a hello; otherwise the caller is a stranger */
/* For each step after the hello, however slow the other machine is. */
#define TCP_PROOF_NS (30 * CLOCK_NS_PER_S)
enum {
    TCP_RETRY_NS = 20000000,
    TCP_PENDING_MAX = 16,  /* connections at a time that have not proved who they are */
    TCP_LISTENERS_MAX = 8, /* addresses of this machine that rank 0's name resolves to */
};

/* A pending connection. Closed if there are too many or it takes too long. */
struct tcp_pending {
    int socket; /* -1: none */
    struct sockaddr_storage address;
    struct tcp_hello hello, own;             /* received, and the answer once is_answered */
    bool is_answered;                        /* waits for the proof */
    uint8_t heard[sizeof(struct tcp_hello)]; /* bytes of the hello, then of the proof */
    size_t got;
    uint64_t until_ns;
};

struct tcp_bootstrap {
    const struct tcp_rendezvous_options *options;
    uint64_t until_ns, run; /* run: its number, once known */
    struct {
        int socket;
        struct sockaddr_storage address; /* as requested */
    } listeners[TCP_LISTENERS_MAX];
    int listeners_count, listens_at;
    int *sockets;
    int accept_status; /* of the last failed accept, or 0 */
    /* the rank claimed by the last caller with a different secret; -1: none */
    int refused;
    struct tcp_address *addresses; /* [ranks] */
    struct tcp_pending pending[TCP_PENDING_MAX];
};

/* Whether the time has passed or a stop was requested. */
bool tcp_bootstrap_is_over(const struct tcp_bootstrap *bootstrap);
/* Returns -EINTR, or -ETIMEDOUT with the missing ranks. */
int tcp_bootstrap_over_error(const struct tcp_bootstrap *bootstrap, struct err *err);
/* Sleeps for time_ns, or until the bootstrap is over. */
void tcp_bootstrap_pause(const struct tcp_bootstrap *bootstrap, uint64_t time_ns);
/* Sending and connecting on the socket then end after TCP_HELLO_NS. */
void tcp_bootstrap_set_timeout(int made);
/* Sends all bytes; false on failure. */
bool tcp_bootstrap_send(int to, const void *data, size_t bytes);
/* This rank's hello, with a new nonce. -errno of getrandom. */
int tcp_bootstrap_hello(const struct tcp_bootstrap *bootstrap, struct tcp_hello *ret_hello);
int tcp_bootstrap_prove(const struct tcp_bootstrap *bootstrap, enum tcp_role role,
                        const struct tcp_hello *caller, const struct tcp_hello *called,
                        struct tcp_proof *ret_proof);
/* -EINVAL: the other rank was given a different number of ranks. */
int tcp_bootstrap_check_ranks(const struct tcp_bootstrap *bootstrap, const struct tcp_hello *hello,
                              struct err *err);

/* IPv4 or IPv6: */
socklen_t tcp_bootstrap_address_bytes(const struct sockaddr_storage *address);
int tcp_bootstrap_port_of(const struct sockaddr_storage *address);
void tcp_bootstrap_set_port(struct sockaddr_storage *address, int port);
bool tcp_bootstrap_is_loopback(const struct sockaddr_storage *address);

/* The i-th port at which the first rank may listen; i starts at 1. */
int tcp_bootstrap_port(const struct tcp_rendezvous_options *options, int i);

#endif
