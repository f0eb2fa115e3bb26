/*
 * tcp_bootstrap — a meeting of ranks from within: who calls (tcp_pending.c) and whom one calls
 * (tcp_rendezvous.c). See tcp_rendezvous.h.
 */
#ifndef MILLRACE_COMM_TCP_TCP_BOOTSTRAP_H
#define MILLRACE_COMM_TCP_TCP_BOOTSTRAP_H

#include "base/clock.h"
#include "comm/tcp/tcp_options.h"
#include "comm/tcp/tcp_wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define TCP_HELLO_NS (2 * CLOCK_NS_PER_S) /* for a hello, else it is a stranger's connection */
#define TCP_PROOF_NS                                                                               \
    (30 * CLOCK_NS_PER_S) /* for each step after it, however slow the other's machine */
enum {
    TCP_PENDING_MAX = 16,  /* at a time, before they have proved who they are */
    TCP_LISTENERS_MAX = 8, /* addresses of this machine that rank 0's name stands for */
};

/* Of somebody who called, as far as it has come; hung up on where there are too many or it takes
 * too long. */
struct tcp_pending {
    int socket; /* -1: none */
    struct sockaddr_storage address;
    struct tcp_hello hello, own;             /* what it said, and the answer, once is_answered */
    bool is_answered;                        /* its proof is awaited */
    uint8_t heard[sizeof(struct tcp_hello)]; /* of its hello, then of its proof */
    size_t got;
    uint64_t until_ns;
};

struct tcp_bootstrap {
    const struct tcp_rendezvous_options *options;
    uint64_t until_ns, run; /* run: its number, once it is known */
    struct {
        int socket;
        struct sockaddr_storage address; /* that was asked for */
    } listeners[TCP_LISTENERS_MAX];
    int listeners_count, listens_at;
    int *sockets;
    int accept_status; /* of the last call that could not be taken, or 0 */
    int refused; /* the rank that the last caller with another secret claimed to be; -1: none */
    struct tcp_place *places; /* [ranks] */
    struct tcp_pending pending[TCP_PENDING_MAX];
};

/* Its time is over, or it is to stop. */
bool tcp_bootstrap_is_over(const struct tcp_bootstrap *bootstrap);
/* -EINTR, or -ETIMEDOUT with who is missing. */
int tcp_bootstrap_tell_over(const struct tcp_bootstrap *bootstrap, struct err *err);
/* Waits so long, but no longer than the bootstrap. */
void tcp_bootstrap_pause(const struct tcp_bootstrap *bootstrap, uint64_t time_ns);
/* Sending all of it; a socket's sending and connecting end after TCP_HELLO_NS once that is
 * limited. */
void tcp_bootstrap_limit(int made);
bool tcp_bootstrap_give(int to, const void *data, size_t bytes);
/* This rank's, with a new nonce. -errno of getrandom. */
int tcp_bootstrap_hello(const struct tcp_bootstrap *bootstrap, struct tcp_hello *ret_hello);
int tcp_bootstrap_prove(const struct tcp_bootstrap *bootstrap, enum tcp_role role,
                        const struct tcp_hello *caller, const struct tcp_hello *called,
                        struct tcp_proof *ret_proof);
/* Of somebody of this run: 0, or -EINVAL where it was told another number of ranks. */
int tcp_bootstrap_check_ranks(const struct tcp_bootstrap *bootstrap, const struct tcp_hello *hello,
                              struct err *err);

bool tcp_bootstrap_is_loopback(const struct sockaddr_storage *address);

/* The i-th port at which the first rank may listen, from 1 on. */
int tcp_bootstrap_port(const struct tcp_rendezvous_options *options, int i);

#endif
