/*
 * collective — blocking collective calls for the ranks of a save or a load.
 *
 * The calls wait as long as all ranks are alive (comm.h, set_timeout), because one rank's storage
 * may be much slower than another's. Threads: as in comm.h.
 */
#ifndef MILLRACE_CKPT_COLLECTIVE_H
#define MILLRACE_CKPT_COLLECTIVE_H

#include "base/err.h"
#include "comm/comm.h"

#include <stdbool.h>
#include <stddef.h>

/* purpose: a string literal for error messages. */
struct comm_options collective_options(const char *purpose);
/* Like comm_agree. */
int collective_agree(struct comm *comm, int status, const char *purpose, struct err *err);
/* Sets *flag on all ranks if it is set on any; unchanged on failure. */
int collective_any(struct comm *comm, bool *flag, const char *purpose, struct err *err);
/* In place: this rank's `bytes` are at all + rank * bytes. After a failure, pass `all` to
 * comm_retain. */
int collective_gather(struct comm *comm, void *all, size_t bytes, const char *purpose,
                      struct err *err);

#endif
