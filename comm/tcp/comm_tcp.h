/*
 * comm_tcp — comm.h over TCP connections between all pairs of ranks, for ranks started by torchrun
 * or with its environment variables.
 *
 *     const struct tcp_rendezvous_options options = {
 *         .address = "node1", .port = 29500, .rank = rank, .ranks = ranks, ...};
 *     comm_tcp_open(&options, &comm, err);      // all ranks
 *     ... comm->ops, comm_wait, comm->ops->split ...
 *     comm_close(comm);  // the last close disconnects, together with the other ranks
 *
 * Meant for systems without MPI. Use NCCL on top for bulk data, because here one thread copies all
 * data through the kernel. All sums are deterministic.
 *
 * A missed deadline, a broken connection or an abort ends the run on all ranks, as in comm_mpi.
 * Ranks must synchronize occasionally, because unexpected messages are limited to
 * TCP_UNEXPECTED_BYTES_MAX.
 *
 * Trust: anyone who can reach a run's ports during the rendezvous and knows the run's token and, if
 * set, secret can join the run. Nothing is encrypted.
 *
 * Threads: one thread at a time per communicator; different communicators concurrently.
 */
#ifndef MILLRACE_COMM_TCP_COMM_TCP_H
#define MILLRACE_COMM_TCP_COMM_TCP_H

#include "comm/comm.h"
#include "comm/tcp/tcp_rendezvous_options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Collective, blocks. -ETIMEDOUT names the missing ranks, if known; -EINTR: stopped; -ECONNABORTED,
 * -ECONNREFUSED: a rank has left; -EINVAL: the address is invalid, or the numbers of ranks differ;
 * -EACCES: the secrets differ; -EADDRINUSE, -ENOMEM or another system error. */
int comm_tcp_open(const struct tcp_rendezvous_options *options, struct comm **ret_comm,
                  struct err *err);

#ifdef __cplusplus
}
#endif

#endif
