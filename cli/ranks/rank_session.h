/*
 * rank_session — runs a verb on several ranks, which report errors and end together.
 *
 *     // as the launcher specifies; without one, a single rank
 *     status = rank_session_open(invocation, &comm, &local_rank, err);
 *     status = ...
 *     // prints errors before any rank ends
 *     return rank_session_close(invocation, comm, status, err);
 *
 * A launcher kills all ranks soon after the first one fails. Each rank therefore prints its results
 * and errors before it closes the communicator, which waits for the others.
 */
#ifndef MILLRACE_CLI_RANKS_RANK_SESSION_H
#define MILLRACE_CLI_RANKS_RANK_SESSION_H

#include "cli/verbs/verb.h"
#include "comm/comm.h"
#include "trainer/control/rank_agreement.h"

/* Opens the communicator of all ranks and sets the console's rank. ret_local_rank: as in struct
 * ranks; may be NULL. -EINVAL if the environment contradicts itself or MPI. */
int rank_session_open(const struct invocation *invocation, struct comm **ret_comm,
                      int *ret_local_rank, struct err *err);
/* Checks that status is 0 on all ranks, like comm_agree. */
int rank_session_agree(struct comm *comm, int status, struct err *err);
/* Compares the configuration, and the verb's own options in record, between ranks, like
 * rank_agreement_check. */
int rank_session_compare(struct comm *comm, const struct train_config *config,
                         struct rank_record *record, struct err *err);
/* Closes the communicator. On several ranks, first prints err if status is a failure, else flushes
 * stdout; main does both for a single rank. Returns the verb's result: its status, or the exit
 * status for the printed error. */
int rank_session_close(const struct invocation *invocation, struct comm *comm, int status,
                       struct err *err);

#endif
