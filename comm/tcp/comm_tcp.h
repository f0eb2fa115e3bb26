/*
 * comm_tcp — comm.h's table over TCP connections between each pair of ranks, for ranks started by
 * torchrun or with its variables.
 *
 *     const struct tcp_rendezvous_options options = {
 *         .address = "node1", .port = 29500, .rank = rank, .ranks = ranks, ...};
 *     comm_tcp_open(&options, &comm, err);      // all ranks
 *     ... comm->ops, comm_wait, comm->ops->split ...
 *     comm_close(comm);  // the last close disconnects, together with the other ranks
 *
 * Meant for systems without MPI, and with NCCL on top for bulk data: one thread copies everything
 * through the kernel. It computes only integer reductions and canonical sums, so all bits equal
 * those of any other backend. There are no fast sums.
 *
 * Ends like comm_mpi: a missed deadline, a broken connection or an abort ends the run on all ranks.
 *
 * Trust: anyone who can reach the ports of a run during its rendezvous, and knows its token and the
 * secret if there is one (tcp_secret.h), can join the run. Nothing is encrypted.
 *
 * Ranks must synchronize now and then. Messages that the receiver does not expect yet are kept
 * there, up to TCP_KEPT_BYTES_MAX; more ends the run.
 *
 * Threads: different threads may use different communicators at the same time; each communicator is
 * used by one thread at a time.
 */
#ifndef MILLRACE_COMM_TCP_COMM_TCP_H
#define MILLRACE_COMM_TCP_COMM_TCP_H

#include "comm/comm.h"
#include "comm/tcp/tcp_rendezvous.h"

/* Collective, blocks. Errors as tcp_rendezvous, or -ENOMEM. */
int comm_tcp_open(const struct tcp_rendezvous_options *options, struct comm **ret_comm,
                  struct err *err);

#endif
