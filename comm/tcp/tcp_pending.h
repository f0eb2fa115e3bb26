/*
 * tcp_pending — listeners, and pending connections served concurrently, from which only a hello and
 * a proof are read. See tcp_bootstrap.h.
 */
#ifndef MILLRACE_COMM_TCP_TCP_PENDING_H
#define MILLRACE_COMM_TCP_TCP_PENDING_H

#include "comm/tcp/tcp_bootstrap.h"

/* The first rank listens at one of the ports that the others try. */
int tcp_pending_listen(struct tcp_bootstrap *bootstrap, struct err *err);
/* Another rank listens at any port of the local address of its connection to the first rank. An
 * existing listener at that address stays. */
int tcp_pending_listen_local(struct tcp_bootstrap *bootstrap, int connected, struct err *err);
/* Waits for a rank of this run to connect and prove the secret. Returns its hello and address, and
 * stores its socket in sockets. Other connections do not delay this. The sockets of higher ranks
 * that connected and left become -1. -ECONNABORTED: a lower rank has left. */
int tcp_pending_accept(struct tcp_bootstrap *bootstrap, struct tcp_hello *ret_hello,
                       struct sockaddr_storage *ret_address, struct err *err);
void tcp_pending_close(struct tcp_bootstrap *bootstrap);
/* Converts an IPv4-mapped IPv6 address to IPv4, because the machine that receives it may lack
 * IPv6. */
void tcp_pending_unmap_ipv4(struct sockaddr_storage *address);

#endif
