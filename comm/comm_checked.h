/*
 * comm_checked — a communicator over another one that finds ranks which do not make the same calls.
 * It is for looking for a mistake, not for training.
 *
 * Before each collective its ranks tell each other which call they are at: its number, size and
 * purpose. Where they differ, all fail with -EPROTO and the first call that differs beside rank
 * 0's, in place of a hang or of bytes that mean something else. The sizes of an all_to_all, which
 * may differ from rank to rank, are compared too: what one sends to another must be what that one
 * expects. This costs an exchange a call, two an all_to_all, which are waited for.
 *
 * Ranks whose main threads call on different communicators, and so wait for each other, fail
 * likewise within some seconds (deadlock.h). Not checked: send and receive, and what other threads
 * wait for.
 *
 * An error that ranks share has its detail on the first of them only, as comm_agree's.
 */
#ifndef MILLRACE_COMM_COMM_CHECKED_H
#define MILLRACE_COMM_COMM_CHECKED_H

#include "comm/comm.h"

/* A collective call of inner's ranks. inner: borrowed; used by nobody else meanwhile. What is split
 * from it is checked too, and closed before it. timeout_ns: for all ranks to come to a split, whose
 * call has no deadline; 0: none. */
int comm_checked_open(struct comm *inner, uint64_t timeout_ns, struct comm **ret_comm,
                      struct err *err);

#endif
