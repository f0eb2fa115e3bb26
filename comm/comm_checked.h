/*
 * comm_checked — a communicator over another one that finds ranks which do not make the same calls: a way to look for a mistake, not to train.
 *
 * Before each collective its ranks tell each other which call they are at, the how manyth it is, and of what size and purpose. Where they differ, all
 * of them fail with what the first that differs does and what it should do, in place of a hang or of bytes that mean something else. It
 * costs an exchange a call, which is waited for. Letters (send, receive) are not looked at.
 */
#ifndef MILLRACE_COMM_COMM_CHECKED_H
#define MILLRACE_COMM_COMM_CHECKED_H

#include "comm/comm.h"

/* inner: borrowed; used by nobody else meanwhile. What is split from it is checked too. */
int comm_checked_open(struct comm *inner, struct comm **ret_comm, struct err *err);

#endif
