/*
 * collective — blocking collective calls for the ranks of a save or a load.
 *
 * Between two calls each rank reads or writes for as long as its storage takes, which may be much
 * longer than on another rank. So the calls have no deadline: they wait as long as the ranks live,
 * by the communicator's timeout (comm.h, set_timeout).
 *
 * Threads: as comm.
 */
#ifndef MILLRACE_CKPT_COLLECTIVE_H
#define MILLRACE_CKPT_COLLECTIVE_H

#include "base/err.h"
#include "comm/comm.h"

#include <stdbool.h>
#include <stddef.h>

/* what: a literal, names the call in errors. */
struct comm_options collective_options(const char *what);
/* As comm_agree. what: as above. */
int collective_agree(struct comm *comm, int status, const char *what, struct err *err);
/* Sets *flag on all ranks if it is set on any; on failure it is unchanged. what: as above. */
int collective_any(struct comm *comm, bool *flag, const char *what, struct err *err);
/* In place: this rank's `bytes` are at all + rank * bytes. On failure `all` goes to comm_retain. */
int collective_gather(struct comm *comm, void *all, size_t bytes, const char *what,
                      struct err *err);

#endif
