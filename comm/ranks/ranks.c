/*
 * ranks — see ranks.h.
 */
#include "comm/ranks/ranks.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/os/dynlib.h"
#include "comm/comm_mpi.h"
#include "comm/tcp/comm_tcp.h"
#include "comm/tcp/tcp_secret.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RENDEZVOUS_NS (300 * CLOCK_NS_PER_S) /* for torchrun's ranks to connect */
#define LIBRARY       "libmillrace_mpi.so.0"

static const struct launcher {
    const char *name, *rank_variable, *count_variable, *local_rank_variable;
    bool is_job_step;   /* another launcher within the job step takes precedence */
    const char *advice; /* if MPI and the launcher disagree */
} launchers[] = {
    [RANKS_SINGLE] = {"one process"},
    [RANKS_TORCHRUN] = {"torchrun (WORLD_SIZE)", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    [RANKS_OPEN_MPI] = {"mpirun (OMPI_COMM_WORLD_SIZE)", "OMPI_COMM_WORLD_RANK",
                        "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    [RANKS_MVAPICH] = {"mpirun (MV2_COMM_WORLD_SIZE)", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
                       "MV2_COMM_WORLD_LOCAL_RANK"},
    [RANKS_PMI] = {"mpirun (PMI_SIZE)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    [RANKS_JSRUN] =
        {"jsrun (JSM_NAMESPACE_SIZE)", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE",
         "JSM_NAMESPACE_LOCAL_RANK", .is_job_step = true,
         .advice = "load the MPI that belongs to jsrun, or start it with mpirun within the job"},
    [RANKS_FLUX] = {"Flux (FLUX_JOB_SIZE)", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID",
                    .is_job_step = true,
                    .advice = "start it with flux run -o pmi=pmix, or with mpirun within the job"},
    [RANKS_PALS] = {"PALS (PMI_SIZE)", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID",
                    .is_job_step = true,
                    .advice = "start it with mpiexec --pmi=pmix, or with the mpirun of the MPI "
                              "that millrace was built with"},
    [RANKS_SLURM] = {"Slurm (SLURM_STEP_NUM_TASKS)", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
                     "SLURM_LOCALID", .is_job_step = true,
                     .advice = "start it with srun --mpi=pmix, or with mpirun within the job"},
};

enum { LAUNCHERS_COUNT = sizeof launchers / sizeof launchers[0] };

/* These variables show that the process is one of several, but not how many there are. */
static const struct partial_launcher {
    const char *variable, *launcher, *advice;
} partials[] = {
    {"OMPI_COMM_WORLD_RANK", "Open MPI", "start the ranks with mpirun"},
    {"MV2_COMM_WORLD_RANK", "MVAPICH", "start the ranks with mpirun"},
    {"JSM_NAMESPACE_RANK", "jsrun", "start the ranks with jsrun or mpirun"},
    {"FLUX_TASK_RANK", "Flux", "start the ranks with flux run or mpirun"},
    {"PALS_RANKID", "PALS", "start the ranks with mpiexec --pmi=pmix"},
    {"ALPS_APP_PE", "aprun", "start the ranks with mpirun within the job"},
    {"PMI_RANK", "PMI", "start the ranks with mpirun, or with srun --mpi=pmix"},
    {"PMIX_RANK", "PMIx", "start the ranks with mpirun, or with srun --mpi=pmix"},
    {"JOB_COMPLETION_INDEX", "a Kubernetes indexed job",
     "set RANK=$JOB_COMPLETION_INDEX, WORLD_SIZE to the job's completions, LOCAL_RANK=0, "
     "MASTER_ADDR to "
     "the host name of pod 0, and MASTER_PORT"},
    {"AWS_BATCH_JOB_NODE_INDEX", "an AWS Batch multi-node job",
     "set RANK=$AWS_BATCH_JOB_NODE_INDEX, WORLD_SIZE=$AWS_BATCH_JOB_NUM_NODES, LOCAL_RANK=0, "
     "MASTER_ADDR "
     "to the main node's address, and MASTER_PORT"},
};

/* *ret_number is -1 if the variable is unset or empty. */
static int read_number(const char *(*get_variable)(const char *name), const char *name,
                       int *ret_number, struct err *err)
{
    const char *text = get_variable(name);
    char *end;
    *ret_number = -1;
    if (!text || !*text)
        return 0;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno || *end || number < 0 || number > INT_MAX) {
        err_set(err, -EINVAL, "the environment variable %s is not a number", name);
        err_found(err, "%.60s", text);
        return -EINVAL;
    }
    *ret_number = (int)number;
    return 0;
}

/* ret_ranks->ranks is 0 if the launcher's variables are unset. */
static int read_launcher(const char *(*get_variable)(const char *name),
                         enum ranks_launcher launcher, struct ranks *ret_ranks, struct err *err)
{
    const struct launcher *source = &launchers[launcher];
    struct ranks found = {.launcher = launcher};
    int status = read_number(get_variable, source->count_variable, &found.ranks, err);
    if (!status)
        status = read_number(get_variable, source->rank_variable, &found.rank, err);
    if (!status)
        status = read_number(get_variable, source->local_rank_variable, &found.local_rank, err);
    if (status)
        return status;
    /* other launchers set the count variable too */
    bool needs_rank = launcher == RANKS_TORCHRUN || launcher == RANKS_PALS;
    if (found.ranks < 0 || (found.rank < 0 && needs_rank)) {
        *ret_ranks = (struct ranks){0};
        return 0;
    }
    if (found.rank < 0 || found.rank >= found.ranks) {
        err_set(err, -EINVAL, "the environment variables %s and %s contradict each other",
                source->rank_variable, source->count_variable);
        err_expected(err, "a rank from 0 to %d", found.ranks - 1);
        err_found(err, found.rank < 0 ? "none" : "%d", found.rank);
        return -EINVAL;
    }
    *ret_ranks = found;
    return 0;
}

/* Runs may share an id (torchrun's default is "none") but not a port. Ranks may use different
 * names for the address, so it is not hashed. */
static uint64_t hash_run_id(const char *run, int port)
{
    char text[512];
    int bytes = snprintf(text, sizeof text, "%d %.*s", port, (int)sizeof text - 16, run ? run : "");
    return hash_64(text, (size_t)bytes);
}

static int read_rendezvous(const char *(*get_variable)(const char *name), struct ranks *ranks,
                           struct err *err)
{
    const char *address = get_variable("MASTER_ADDR"), *run = get_variable("TORCHELASTIC_RUN_ID");
    int status = read_number(get_variable, "MASTER_PORT", &ranks->rendezvous.port, err);
    if (status)
        return status;
    bool is_port = ranks->rendezvous.port > 0 && ranks->rendezvous.port <= UINT16_MAX;
    if (!address || !*address || strlen(address) >= RANKS_ADDRESS_BYTES || !is_port)
        return 0; /* reported by ranks_open */
    strcpy(ranks->rendezvous.address, address);
    ranks->rendezvous.token = hash_run_id(run, ranks->rendezvous.port);
    return 0;
}

static int contradiction_error(const struct ranks *a, const struct ranks *b, struct err *err)
{
    err_set(err, -EINVAL, "two launchers contradict each other");
    err_expected(err, "rank %d of %d according to %s", a->rank, a->ranks,
                 launchers[a->launcher].name);
    err_found(err, "rank %d of %d according to %s", b->rank, b->ranks, launchers[b->launcher].name);
    err_advise(err, "start it with one of them, and unset the variables of the other");
    return -EINVAL;
}

static int missing_count_error(const struct partial_launcher *partial, const char *value,
                               struct err *err)
{
    err_set(err, -EINVAL,
            "%s started this process as one of several (%s), but did not say how many there are",
            partial->launcher, partial->variable);
    err_expected(err, "the number of ranks");
    err_found(err, "only %s=%.60s", partial->variable, value);
    err_advise(err, "%s; for a run of one process, set RANK=0 and WORLD_SIZE=1", partial->advice);
    return -EINVAL;
}

/* A script that starts several ranks may have failed to set RANK. */
static int check_world_size(const char *(*get_variable)(const char *name), struct err *err)
{
    int ranks;
    int status = read_number(get_variable, "WORLD_SIZE", &ranks, err);
    if (status || ranks <= 1)
        return status;
    err_set(err, -EINVAL,
            "the environment says how many ranks there are, but not which one this is");
    err_expected(err, "RANK");
    err_found(err, "only WORLD_SIZE=%d", ranks);
    err_advise(
        err, "start the ranks with torchrun or mpirun; for a run of one process, unset WORLD_SIZE");
    return -EINVAL;
}

/* Called if no launcher sets both a rank and a count. */
static int check_single_process(const char *(*get_variable)(const char *name), struct ranks *ranks,
                                struct err *err)
{
    int tasks;
    for (size_t i = 0; i < sizeof partials / sizeof partials[0]; i++) {
        const char *value = get_variable(partials[i].variable);
        if (value && *value)
            return missing_count_error(&partials[i], value, err);
    }
    int status = check_world_size(get_variable, err);
    if (!status)
        status = read_number(get_variable, "SLURM_NTASKS", &tasks, err);
    if (status)
        return status;
    ranks->job_tasks = tasks > 0 ? tasks : 0;
    return 0;
}

static bool is_same_rank(const struct ranks *a, const struct ranks *b)
{
    return a->rank == b->rank && a->ranks == b->ranks;
}

int ranks_detect(const char *(*get_variable)(const char *name), struct ranks *ret_ranks,
                 struct err *err)
{
    struct ranks found = {.launcher = RANKS_SINGLE, .ranks = 1, .local_rank = 0};
    for (int i = RANKS_TORCHRUN; i < LAUNCHERS_COUNT; i++) {
        struct ranks reported;
        int status = read_launcher(get_variable, (enum ranks_launcher)i, &reported, err);
        if (status)
            return status;
        bool is_first = found.launcher == RANKS_SINGLE;
        if (reported.ranks == 0 ||
            (launchers[i].is_job_step && !is_first && !is_same_rank(&found, &reported)))
            continue;
        if (!is_first && !is_same_rank(&found, &reported))
            return contradiction_error(&found, &reported, err);
        if (i == RANKS_TORCHRUN && (status = read_rendezvous(get_variable, &reported, err)))
            return status;
        if (reported.local_rank < 0 && !is_first)
            reported.local_rank = found.local_rank;
        /* If launchers agree, prefer mpirun, which connects the ranks. PMI variables do not imply
         * mpirun: step launchers set them too. */
        if (is_first || !launchers[i].is_job_step || found.launcher == RANKS_PMI)
            found = reported;
        else if (found.local_rank < 0)
            found.local_rank = reported.local_rank;
    }
    int status =
        found.launcher == RANKS_SINGLE ? check_single_process(get_variable, &found, err) : 0;
    if (status)
        return status;
    *ret_ranks = found;
    return 0;
}

/* libmillrace_mpi stays loaded because MPI cannot be started twice. */
struct mpi_library {
    int (*open)(const struct comm_mpi_options *options, struct comm **ret_comm, struct err *err);
    const char *(*version)(void);
    const char *(*library)(char text[COMM_MPI_TEXT_BYTES]);
};

static int load_mpi(struct mpi_library *ret_mpi, struct err *err)
{
    struct mpi_library mpi;
    static const char *const names[] = {LIBRARY};
    const struct dynlib_function wanted[] = {{"comm_mpi_open", &mpi.open},
                                             {"comm_mpi_version", &mpi.version},
                                             {"comm_mpi_library", &mpi.library}};
    void *handle = dynlib_open(names, 1);
    if (!handle) {
        err_set(err, -ENOTSUP, "MPI is not available: %.200s", dlerror());
        err_advise(err,
                   "install Open MPI (openmpi-bin, libopenmpi-dev) and build millrace with it");
        return -ENOTSUP;
    }
    const char *missing = dynlib_find(handle, wanted, sizeof wanted / sizeof wanted[0]);
    if (missing) {
        err_set(err, -ENOTSUP, "%s lacks %s", LIBRARY, missing);
        return -ENOTSUP;
    }
    if (strcmp(mpi.version(), MILLRACE_VERSION) != 0) {
        err_set(err, -ENOTSUP, "%s is from a different version of millrace", LIBRARY);
        err_expected(err, "%s", MILLRACE_VERSION);
        err_found(err, "%s", mpi.version());
        return -ENOTSUP;
    }
    *ret_mpi = mpi;
    return 0;
}

int ranks_mpi_library(char text[RANKS_MPI_LIBRARY_BYTES], struct err *err)
{
    static_assert((int)RANKS_MPI_LIBRARY_BYTES == (int)COMM_MPI_TEXT_BYTES, "one size");
    struct mpi_library mpi;
    int status = load_mpi(&mpi, err);
    if (!status)
        mpi.library(text);
    return status;
}

static int check_opened(const struct ranks *ranks, const struct comm *comm, struct err *err)
{
    if (comm->ranks == ranks->ranks && comm->rank == ranks->rank)
        return 0;
    err_set(err, -EINVAL, "the launcher and MPI contradict each other");
    err_expected(err, "rank %d of %d according to %s", ranks->rank, ranks->ranks,
                 launchers[ranks->launcher].name);
    err_found(err, "rank %d of %d according to MPI", comm->rank, comm->ranks);
    const char *advice = launchers[ranks->launcher].advice;
    err_advise(err, "%s",
               advice ? advice
                      : "start it with the mpirun of the MPI that millrace was built with");
    return -EINVAL;
}

static bool is_stop_set(const void *stop)
{
    return atomic_load((const atomic_int *)stop) != 0;
}

static int open_tcp(const struct ranks *ranks, const atomic_int *stop, struct comm **ret_comm,
                    struct err *err)
{
    struct tcp_secret secret;
    const struct tcp_rendezvous_options options = {.address = ranks->rendezvous.address,
                                                   .port = ranks->rendezvous.port,
                                                   .rank = ranks->rank,
                                                   .ranks = ranks->ranks,
                                                   .token = ranks->rendezvous.token,
                                                   .secret = &secret,
                                                   .timeout_ns = RENDEZVOUS_NS,
                                                   .wants_stop = stop ? is_stop_set : NULL,
                                                   .stop_context = stop};
    if (ranks->ranks > TCP_RANKS_MAX) {
        err_set(err, -EINVAL, "%d ranks are too many for all-to-all connections", ranks->ranks);
        err_expected(err, "at most %d", TCP_RANKS_MAX);
        err_advise(err, "start them with mpirun or srun");
        return -EINVAL;
    }
    if (ranks->rendezvous.address[0]) {
        int status = tcp_secret_read(&secret, err);
        if (!status)
            status = comm_tcp_open(&options, ret_comm, err);
        tcp_secret_clear(&secret);
        return status;
    }
    err_set(err, -EINVAL, "%d ranks of torchrun have no rendezvous address", ranks->ranks);
    err_advise(
        err, "set MASTER_ADDR and MASTER_PORT as torchrun does, or start them with mpirun or srun");
    return -EINVAL;
}

int ranks_open(const struct ranks *ranks, const atomic_int *stop, struct comm **ret_comm,
               struct err *err)
{
    struct mpi_library mpi;
    struct comm *comm;
    if (ranks->ranks == 1)
        return comm_self_open(ret_comm, err);
    if (ranks->launcher == RANKS_TORCHRUN)
        return open_tcp(ranks, stop, ret_comm, err);
    int status = load_mpi(&mpi, err);
    if (!status)
        status = mpi.open(NULL, &comm, err);
    if (status)
        return status;
    status = check_opened(ranks, comm, err);
    if (status)
        comm_close(comm);
    else
        *ret_comm = comm;
    return status;
}
