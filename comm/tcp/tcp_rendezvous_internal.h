/*
 * tcp_rendezvous_internal — the state and helpers shared by tcp_rendezvous_accept.c, which accepts
 * connections, and tcp_rendezvous.c, which opens them.
 */
#ifndef MILLRACE_COMM_TCP_TCP_RENDEZVOUS_INTERNAL_H
#define MILLRACE_COMM_TCP_TCP_RENDEZVOUS_INTERNAL_H

#include "base/clock.h"
#include "comm/tcp/tcp_rendezvous_options.h"
#include "comm/tcp/tcp_secret.h"
#include "comm/tcp/tcp_wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define TCP_HELLO_NS (2 * CLOCK_NS_PER_S) /* to receive a hello */
/* For each later step; allows for slow machines. */
#define TCP_PROOF_NS (30 * CLOCK_NS_PER_S)
enum {
    TCP_RETRY_NS = 20000000,
    TCP_PENDING_MAX = 16,  /* unauthenticated connections at a time */
    TCP_LISTENERS_MAX = 8, /* local addresses that rank 0's name resolves to */
};

/* An unauthenticated connection. */
struct tcp_pending {
    int socket; /* -1: none */
    struct sockaddr_storage address;
    struct tcp_hello hello, own; /* received, and sent if is_answered */
    bool is_answered;
    uint8_t received[sizeof(struct tcp_hello)]; /* the hello, then the proof */
    size_t received_bytes;
    uint64_t deadline_ns;
};

struct tcp_rendezvous {
    const struct tcp_rendezvous_options *options;
    uint64_t deadline_ns, run_id; /* run_id: random; 0 until known */
    struct {
        int socket;
        struct sockaddr_storage address;
    } listeners[TCP_LISTENERS_MAX];
    int listeners_count, listen_port;
    int *sockets;
    int accept_status; /* last error of accept, or 0 */
    /* rank claimed by the last connection with a different secret; -1: none */
    int refused_rank;
    struct tcp_address *addresses; /* [ranks] */
    struct tcp_pending pending[TCP_PENDING_MAX];
};

/* True after the timeout or a requested stop. */
bool tcp_rendezvous_should_stop(const struct tcp_rendezvous *rendezvous);
/* Returns -EINTR, or -ETIMEDOUT with the missing ranks. */
int tcp_rendezvous_stop_error(const struct tcp_rendezvous *rendezvous, struct err *err);
/* Sleeps for time_ns, or until the rendezvous should stop. */
void tcp_rendezvous_sleep(const struct tcp_rendezvous *rendezvous, uint64_t time_ns);
/* Limits connecting and sending on the socket to TCP_HELLO_NS. */
void tcp_socket_set_timeout(int fd);
bool tcp_socket_send(int fd, const void *data, size_t bytes);
/* This rank's hello, with a new nonce. */
int tcp_rendezvous_make_hello(const struct tcp_rendezvous *rendezvous, struct tcp_hello *ret_hello);
int tcp_rendezvous_prove(const struct tcp_rendezvous *rendezvous, enum tcp_role role,
                         const struct tcp_hello *initiator, const struct tcp_hello *responder,
                         struct tcp_proof *ret_proof);
/* -EINVAL: the numbers of ranks differ. */
int tcp_rendezvous_check_ranks(const struct tcp_rendezvous *rendezvous,
                               const struct tcp_hello *hello, struct err *err);

/* address: IPv4 or IPv6. */
socklen_t tcp_address_bytes(const struct sockaddr_storage *address);
int tcp_address_port(const struct sockaddr_storage *address);
void tcp_address_set_port(struct sockaddr_storage *address, int port);
bool tcp_address_is_loopback(const struct sockaddr_storage *address);

/* The i-th port on which rank 0 may listen, counting from 1. */
int tcp_rendezvous_port(const struct tcp_rendezvous_options *options, int i);

#endif
