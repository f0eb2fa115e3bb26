/*
 * tcp_rendezvous_accept — the listening side of tcp_rendezvous. Pending connections are served
 * concurrently until they prove the secret.
 */
#ifndef MILLRACE_COMM_TCP_TCP_RENDEZVOUS_ACCEPT_H
#define MILLRACE_COMM_TCP_TCP_RENDEZVOUS_ACCEPT_H

#include "comm/tcp/tcp_rendezvous_internal.h"

/* On rank 0: listens on one of the ports that the other ranks try. */
int tcp_rendezvous_listen(struct tcp_rendezvous *rendezvous, struct err *err);
/* On other ranks: listens on any port of the local address of the connection to rank 0. Keeps an
 * existing listener on that address. */
int tcp_rendezvous_listen_local(struct tcp_rendezvous *rendezvous, int rank0_socket,
                                struct err *err);
/* Waits for a rank of this run to connect and prove the secret, and stores its socket in
 * sockets. Other connections cause no delay. Sets the sockets of disconnected higher ranks to -1.
 * -ECONNABORTED: a lower rank has left. */
int tcp_rendezvous_accept(struct tcp_rendezvous *rendezvous, struct tcp_hello *ret_hello,
                          struct sockaddr_storage *ret_address, struct err *err);
void tcp_rendezvous_stop_accepting(struct tcp_rendezvous *rendezvous);
/* Converts an IPv4-mapped IPv6 address to IPv4: the receiving machine may lack IPv6. */
void tcp_address_unmap_ipv4(struct sockaddr_storage *address);

#endif
