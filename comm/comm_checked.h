/*
 * comm_checked — wraps a communicator to find ranks that make different calls. Meant for debugging,
 * not for training.
 *
 * Before each collective, the ranks exchange the number, size and purpose of the call. If these
 * differ, all ranks fail with -EPROTO instead of hanging or misreading bytes. The error shows the
 * first call that differs from rank 0's. The sizes of an all_to_all may differ between ranks, so
 * they are compared pairwise: what one rank sends must be what the other expects. The check costs
 * one blocking exchange per call, and two per all_to_all.
 *
 * Ranks whose main threads wait for each other on different communicators also fail, within some
 * seconds (deadlock.h). Not checked: send, receive, and what other threads wait for.
 *
 * As with comm_agree, an error that ranks share has its detail only on the first of them.
 */
#ifndef MILLRACE_COMM_COMM_CHECKED_H
#define MILLRACE_COMM_COMM_CHECKED_H

#include "comm/comm.h"

/* Collective over the ranks of inner, which is borrowed and must not be used directly meanwhile.
 * Communicators split from this one are checked too; close them first. timeout_ns: for all ranks to
 * reach a split, whose call has no deadline; 0: none. */
int comm_checked_open(struct comm *inner, uint64_t timeout_ns, struct comm **ret_comm,
                      struct err *err);

#endif
