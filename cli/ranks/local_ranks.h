/*
 * local_ranks — starts the ranks of a verb on this machine if no launcher did.
 *
 *     status = local_ranks_run(invocation, 2, &is_done, err);
 *     if (status || is_done)
 *         return status;                        // the ranks ran the verb
 *     ... rank_session_open ...                 // this process is a rank
 */
#ifndef MILLRACE_CLI_RANKS_LOCAL_RANKS_H
#define MILLRACE_CLI_RANKS_LOCAL_RANKS_H

#include "cli/verbs/verb.h"

/* If this process is not a rank and ranks > 1, runs the same command line on `ranks` ranks with
 * mpirun, forwards signals, blocks until they end and sets *ret_done. Returns their exit status, or
 * -errno. */
int local_ranks_run(const struct invocation *invocation, unsigned ranks, bool *ret_done,
                    struct err *err);

#endif
