#include "cli/ranks/rank_session.h"

#include "base/clock.h"
#include "cli/core/output.h"
#include "cli/core/signals.h"
#include "comm/ranks/ranks.h"

#include <errno.h>
#include <stdlib.h>

/* until all ranks have read their configuration */
#define START_TIMEOUT_NS (600 * CLOCK_NS_PER_S)

static const char *get_variable(const char *name)
{
    return getenv(name);
}

int rank_session_open(const struct invocation *invocation, struct comm **ret_comm,
                      int *ret_local_rank, struct err *err)
{
    struct ranks ranks;
    int status = ranks_detect(get_variable, &ranks, err);
    if (status)
        return status;
    if (ret_local_rank)
        *ret_local_rank = ranks.local_rank;
    console_set_rank(invocation->console, ranks.rank, ranks.ranks);
    if (ranks.job_tasks > 1)
        log_line(&invocation->console->log, LOG_WARN,
                 "this is a single rank in a job of %d tasks (SLURM_NTASKS); start all ranks with "
                 "srun --mpi=pmix",
                 ranks.job_tasks);
    return ranks_open(&ranks, signals_stop_flag(), ret_comm, err);
}

int rank_session_agree(struct comm *comm, int status, struct err *err)
{
    struct comm_options options = {.deadline_ns = clock_now_ns() + START_TIMEOUT_NS,
                                   .purpose = "reading the configuration"};
    return comm->ranks == 1 ? status : comm_agree(comm, status, &options, err);
}

int rank_session_compare(struct comm *comm, const struct train_config *config,
                         struct rank_record *record, struct err *err)
{
    struct comm_options options = {.deadline_ns = clock_now_ns() + START_TIMEOUT_NS,
                                   .purpose = "comparing the configurations of the ranks"};
    rank_record_add_config(record, config);
    return rank_agreement_check(
        comm, record, "run every rank with the same configuration, options and version of millrace",
        &options, err);
}

int rank_session_close(const struct invocation *invocation, struct comm *comm, int status,
                       struct err *err)
{
    bool has_failed = status < 0 || (status != EXIT_DONE && err->code);
    if (comm->ranks > 1 && !has_failed && output_flush(err)) {
        has_failed = true;
        status = EXIT_FAILED;
    }
    if (comm->ranks > 1 && has_failed) {
        if (err->code == 0)
            err_errno(err, status, "the verb failed");
        if (err->what[0]) /* empty if an earlier rank prints the same error */
            console_error(invocation->console, err);
        err_clear(err);
        status = status == -EINVAL ? EXIT_USAGE : status < 0 ? EXIT_FAILED : status;
    }
    comm_close(comm);
    return status;
}
