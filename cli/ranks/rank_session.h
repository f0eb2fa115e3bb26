/*
 * rank_session — runs a verb on several ranks: identifies them, reports errors and ends them
 * together.
 *
 *     // as the launcher specifies; a single rank without one
 *     status = rank_session_open(invocation, &comm, &local_rank, err);
 *     status = ...
 *     // prints errors before any rank ends
 *     return rank_session_close(invocation, comm, status, err);
 *
 * A launcher kills all ranks a moment after the first one fails. A rank therefore prints its
 * results and errors before it closes the communicator, and the others wait for that.
 */
#ifndef MILLRACE_CLI_RANKS_RANK_SESSION_H
#define MILLRACE_CLI_RANKS_RANK_SESSION_H

#include "cli/core/verb.h"
#include "comm/comm.h"
#include "trainer/control/rank_agreement.h"

/* Opens the communicator of all ranks and sets the console's rank. ret_local_rank: as in struct
 * ranks; may be NULL. -EINVAL if the environment contradicts itself or MPI. */
int rank_session_open(const struct invocation *invocation, struct comm **ret_comm,
                      int *ret_local_rank, struct err *err);
/* Checks that all ranks reached this point with status 0, as comm_agree. */
int rank_session_agree(struct comm *comm, int status, struct err *err);
/* Compares the configuration, and the verb's own options in record, between ranks, as
 * rank_agreement_check. */
int rank_session_compare(struct comm *comm, const struct train_config *config,
                         struct rank_record *record, struct err *err);
/* Closes the communicator. On several ranks, first prints err if status is a failure, else flushes
 * stdout; main does both for a single rank. Returns what the verb should return: its status, or the
 * exit status for the printed error. */
int rank_session_close(const struct invocation *invocation, struct comm *comm, int status,
                       struct err *err);

#endif
