/*
 * rank_session — a verb on several ranks: who they are, who speaks, and how all of them end.
 *
 *     // by the launcher's word; alone where there is none
 *     status = rank_session_open(invocation, &comm, &local_rank, err);
 *     status = ...
 *     // what went wrong is told before anybody ends
 *     return rank_session_close(invocation, comm, status, err);
 *
 * A launcher ends all ranks a moment after the first one ended badly. So whatever a rank has to
 * say, results and its reason, is said before it closes the communicator, for which the others
 * wait.
 */
#ifndef MILLRACE_CLI_RANKS_RANK_SESSION_H
#define MILLRACE_CLI_RANKS_RANK_SESSION_H

#include "cli/core/verb.h"
#include "comm/comm.h"
#include "trainer/run/rank_agreement.h"

/* All ranks. From here on the console knows which rank it is. ret_local_rank: as struct ranks has
 * it; NULL is fine. -EINVAL where the environment contradicts itself or MPI. */
int rank_session_open(const struct invocation *invocation, struct comm **ret_comm,
                      int *ret_local_rank, struct err *err);
/* Did all come as far as this with status 0? As comm_agree. */
int rank_session_agree(struct comm *comm, int status, struct err *err);
/* Compares the configuration, and what the verb's record holds of its own options, between ranks.
 * As rank_agreement_check. */
int rank_session_compare(struct comm *comm, const struct train_config *config,
                         struct rank_record *record, struct err *err);
/* Prints what is in err where status is a failure, flushes stdout, and closes. What the verb is to
 * return: its status, or that of what was printed. */
int rank_session_close(const struct invocation *invocation, struct comm *comm, int status,
                       struct err *err);

#endif
