/*
 * rank_session — runs a verb on several ranks: they report errors and end together.
 *
 *     status = rank_session_open(invocation, &comm, &local_rank, err);
 *     status = ...
 *     return rank_session_close(invocation, comm, status, err);
 *
 * A launcher kills all ranks soon after the first one fails. So each rank prints its results and
 * errors before it closes the communicator: closing waits for the others.
 */
#ifndef MILLRACE_CLI_RANKS_RANK_SESSION_H
#define MILLRACE_CLI_RANKS_RANK_SESSION_H

#include "cli/verbs/verb.h"
#include "comm/comm.h"
#include "trainer/control/rank_agreement.h"

/* Opens the communicator of all ranks, or of one rank without a launcher, and sets the rank of the
 * console. ret_local_rank: as in struct ranks; may be NULL. -EINVAL: the environment
 * contradicts itself or MPI. */
int rank_session_open(const struct invocation *invocation, struct comm **ret_comm,
                      int *ret_local_rank, struct err *err);
/* Checks that status is 0 on all ranks, like comm_agree. */
int rank_session_agree(struct comm *comm, int status, struct err *err);
/* Adds the configuration to the verb's options in record, then compares record between ranks. */
int rank_session_compare(struct comm *comm, const struct train_config *config,
                         struct rank_record *record, struct err *err);
/* Closes the communicator. On several ranks, first prints err after a failure, else flushes stdout;
 * for a single rank main does both. Returns status, or the exit status of the printed error. */
int rank_session_close(const struct invocation *invocation, struct comm *comm, int status,
                       struct err *err);

#endif
