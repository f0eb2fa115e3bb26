/*
 * local_ranks — a verb that starts its own ranks, on this machine, where no launcher has.
 *
 *     status = local_ranks_run(invocation, 2, &is_done, err);
 *     if (status || is_done)
 *         return status;                        // the ranks have done it
 *     ... rank_session_open ...                         // this is one of them
 */
#ifndef MILLRACE_CLI_RANKS_LOCAL_RANKS_H
#define MILLRACE_CLI_RANKS_LOCAL_RANKS_H

#include "cli/core/verb.h"

/* Where this process is alone: mpirun, typed for the user, with the words that were typed, on so
 * many ranks; blocks until they end, and *ret_done is true. One rank needs no other process. Ctrl-C
 * and its like are passed on. The exit status of the ranks, or -errno. */
int local_ranks_run(const struct invocation *invocation, unsigned ranks, bool *ret_done,
                    struct err *err);

#endif
