/*
 * tcp_pending — who calls: a listener, and callers side by side, of whom nothing is read but a
 * hello. See tcp_bootstrap.h.
 */
#ifndef MILLRACE_COMM_TCP_TCP_PENDING_H
#define MILLRACE_COMM_TCP_TCP_PENDING_H

#include "comm/tcp/tcp_bootstrap.h"

/* The first rank: at one of the ports that others know. */
int tcp_pending_listen(struct tcp_bootstrap *bootstrap, struct err *err);
/* Another rank: at any port of the address that this connection to the first one has here. Where it
 * listens there already, that stays. */
int tcp_pending_listen_beside(struct tcp_bootstrap *bootstrap, int connected, struct err *err);
/* Somebody of this run calls and proves the secret: what it said and from where, and its socket
 * stands in sockets. Nobody else holds that up. Those above this rank who called and have left are
 * awaited anew: their sockets become -1. -ECONNABORTED where one of those below this rank has left
 * meanwhile. */
int tcp_pending_accept(struct tcp_bootstrap *bootstrap, struct tcp_hello *ret_hello,
                       struct sockaddr_storage *ret_address, struct err *err);
void tcp_pending_close(struct tcp_bootstrap *bootstrap);
/* Where it is one of IPv4 that IPv6 wraps: as it is. The machine that gets it may not have IPv6. */
void tcp_pending_be_plain(struct sockaddr_storage *address);

#endif
