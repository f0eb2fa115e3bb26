/*
 * comm_checked — a communicator over another one that finds ranks which do not make the same calls: a way to look for a mistake, not to train.
 *
 * Before each collective its ranks tell each other which call they are at, the how manyth it is, and of what size and purpose. Where they differ, all
 * of them fail with what the first that differs does and what it should do, in place of a hang or of bytes that mean something else. Sizes that may
 * differ from rank to rank, those of an all_to_all, are told too: what one sends to another must be what that one expects. It costs an exchange
 * a call, two an all_to_all, which are waited for. Letters (send, receive) are not looked at.
 */
#ifndef MILLRACE_COMM_COMM_CHECKED_H
#define MILLRACE_COMM_COMM_CHECKED_H

#include "comm/comm.h"

/* inner: borrowed; used by nobody else meanwhile. What is split from it is checked too. timeout_ns: for all ranks to come to a split, whose call has no
 * deadline; 0: none. */
int comm_checked_open(struct comm *inner, uint64_t timeout_ns, struct comm **ret_comm, struct err *err);

#endif
