/*
 * collective — what the ranks of a save or a load tell each other. Each call blocks.
 *
 * Between two calls a rank reads or writes, for as long as its storage takes, which may be much
 * longer than another's. So none of them has a deadline: they wait as long as the ranks live, by
 * the timeout of the communicator (comm.h, set_timeout).
 *
 * Threads: as comm.
 */
#ifndef MILLRACE_CKPT_COLLECTIVE_H
#define MILLRACE_CKPT_COLLECTIVE_H

#include "base/err.h"
#include "comm/comm.h"

#include <stdbool.h>
#include <stddef.h>

/* Of a call that the others wait for. what: a literal. */
struct comm_options collective_options(const char *what);
/* As comm_agree. what: for which all wait, in errors; a literal. */
int collective_agree(struct comm *comm, int status, const char *what, struct err *err);
/* *flag becomes true on all ranks where it is on any; as it was where this fails. what: as
 * above. */
int collective_any(struct comm *comm, bool *flag, const char *what, struct err *err);
/* In place: `bytes` at all + rank * bytes are this rank's. Where it fails, `all` goes to
 * comm_retain. */
int collective_gather(struct comm *comm, void *all, size_t bytes, const char *what,
                      struct err *err);

#endif
