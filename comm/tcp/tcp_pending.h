/*
 * tcp_pending — listeners and pending connections, which are served concurrently until they prove
 * the secret. See tcp_bootstrap.h.
 */
#ifndef MILLRACE_COMM_TCP_TCP_PENDING_H
#define MILLRACE_COMM_TCP_TCP_PENDING_H

#include "comm/tcp/tcp_bootstrap.h"

/* On rank 0: listens on one of the ports that the other ranks try. */
int tcp_pending_listen(struct tcp_bootstrap *bootstrap, struct err *err);
/* On other ranks: listens on any port of the local address of the connection to rank 0. Keeps an
 * existing listener on that address. */
int tcp_pending_listen_local(struct tcp_bootstrap *bootstrap, int connected, struct err *err);
/* Waits for a rank of this run to connect and prove the secret, and stores its socket in
 * sockets. Other connections cause no delay. Resets the sockets of higher ranks that
 * disconnected to -1. -ECONNABORTED: a lower rank has left. */
int tcp_pending_accept(struct tcp_bootstrap *bootstrap, struct tcp_hello *ret_hello,
                       struct sockaddr_storage *ret_address, struct err *err);
void tcp_pending_close(struct tcp_bootstrap *bootstrap);
/* Converts an IPv4-mapped IPv6 address to IPv4: the receiving machine may lack IPv6. */
void tcp_pending_unmap_ipv4(struct sockaddr_storage *address);

#endif
