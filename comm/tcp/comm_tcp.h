/*
 * comm_tcp — ranks that torchrun started, or whoever sets its variables: comm.h's table over TCP
 * connections between each two of them.
 *
 *     const struct tcp_rendezvous_options options = {
 *         .address = "node1", .port = 29500, .rank = rank, .ranks = ranks, ...};
 *     comm_tcp_open(&options, &comm, err);      // all ranks
 *     ... comm->ops, comm_wait, comm->ops->split ...
 *     comm_close(comm);  // the last one parts, together with the other ranks
 *
 * For where there is no MPI, and with NCCL for bulk on top: what it moves is copied through the
 * kernel by one thread. Nothing but the ranks' sums of integers and the canonical ones is added, so
 * that all bits are those of any other backend; there are no fast sums.
 *
 * Ends as comm_mpi's do: a deadline that passes, a connection that breaks, or an abort ends the run
 * on all ranks.
 *
 * Trust: whoever can reach the ports of a run while its ranks meet, and knows its token and the
 * secret, where it has one (tcp_secret.h), can take part in it. Nothing is encrypted.
 *
 * Ranks must wait for each other now and then: what one sends before another wants it is kept
 * there, up to TCP_KEPT_BYTES_MAX; more ends the run.
 *
 * Threads: communicators may be used at the same time by different threads, each by one thread at a
 * time.
 */
#ifndef MILLRACE_COMM_TCP_COMM_TCP_H
#define MILLRACE_COMM_TCP_COMM_TCP_H

#include "comm/comm.h"
#include "comm/tcp/tcp_rendezvous.h"

/* Collective, blocks. As tcp_meet, or -ENOMEM. */
int comm_tcp_open(const struct tcp_rendezvous_options *options, struct comm **ret_comm,
                  struct err *err);

#endif
