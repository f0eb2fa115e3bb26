/*
 * ranks — see ranks.h.
 */
#include "comm/ranks.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/library.h"
#include "comm/comm_mpi.h"
#include "comm/comm_tcp.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEETING_NS (300 * CLOCK_NS_PER_S) /* for all ranks of torchrun to come */
#define LIBRARY    "libmillrace_mpi.so.0"

static const struct launcher {
    const char *name, *rank, *ranks, *local_rank;
} launchers[] = {
    [RANKS_ALONE] = {"one process", NULL, NULL, NULL},
    [RANKS_TORCHRUN] = {"torchrun (WORLD_SIZE)", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    [RANKS_OPEN_MPI] = {"mpirun (OMPI_COMM_WORLD_SIZE)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                        "OMPI_COMM_WORLD_LOCAL_RANK"},
    [RANKS_PMI] = {"mpirun (PMI_SIZE)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    [RANKS_SLURM] = {"Slurm (SLURM_STEP_NUM_TASKS)", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
};

enum { LAUNCHERS = sizeof launchers / sizeof launchers[0] };

const char *ranks_launcher_name(enum ranks_launcher launcher)
{
    return launchers[launcher].name;
}

/* -1 where it is absent. */
static int number_of(const char *(*variable)(const char *name), const char *name, int *ret_number,
                     struct err *err)
{
    const char *text = variable(name);
    char *end;
    *ret_number = -1;
    if (!text || !*text)
        return 0;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno || *end || number < 0 || number > INT_MAX) {
        err_set(err, -EINVAL, "the environment's %s is no number", name);
        err_found(err, "%.60s", text);
        return -EINVAL;
    }
    *ret_number = (int)number;
    return 0;
}

/* ranks 0: this launcher says nothing. */
static int ask(const char *(*variable)(const char *name), enum ranks_launcher launcher,
               struct ranks *ret_ranks, struct err *err)
{
    const struct launcher *from = &launchers[launcher];
    struct ranks found = {.launcher = launcher};
    int status = number_of(variable, from->ranks, &found.ranks, err);
    if (!status)
        status = number_of(variable, from->rank, &found.rank, err);
    if (!status)
        status = number_of(variable, from->local_rank, &found.local_rank, err);
    if (status)
        return status;
    if (found.ranks < 0 || (found.rank < 0 && launcher == RANKS_TORCHRUN)) { /* others use such a name too */
        *ret_ranks = (struct ranks){0};
        return 0;
    }
    if (found.rank < 0 || found.rank >= found.ranks) {
        err_set(err, -EINVAL, "the environment's %s and %s contradict each other", from->rank, from->ranks);
        err_expected(err, "a rank from 0 to %d", found.ranks - 1);
        err_found(err, found.rank < 0 ? "none" : "%d", found.rank);
        return -EINVAL;
    }
    *ret_ranks = found;
    return 0;
}

/* The same on all ranks of a run. Its id may be that of others, too: torchrun's default is "none", and by hand there is none. The port is this
 * run's own on its machine. The address is not asked: ranks may have names of their own for it. */
static uint64_t token_of(const char *run, int port)
{
    char text[512];
    int bytes = snprintf(text, sizeof text, "%d %.*s", port, (int)sizeof text - 16, run ? run : "");
    return hash_64(text, (size_t)bytes);
}

/* Where torchrun's ranks meet. */
static int ask_meeting(const char *(*variable)(const char *name), struct ranks *ranks, struct err *err)
{
    const char *address = variable("MASTER_ADDR"), *run = variable("TORCHELASTIC_RUN_ID");
    int status = number_of(variable, "MASTER_PORT", &ranks->meeting.port, err);
    if (status)
        return status;
    bool is_port = ranks->meeting.port > 0 && ranks->meeting.port <= UINT16_MAX;
    if (!address || !*address || strlen(address) >= RANKS_ADDRESS_BYTES || !is_port)
        return 0; /* told where it is missed */
    strcpy(ranks->meeting.address, address);
    ranks->meeting.token = token_of(run, ranks->meeting.port);
    return 0;
}

static int contradict(const struct ranks *a, const struct ranks *b, struct err *err)
{
    err_set(err, -EINVAL, "two launchers contradict each other");
    err_expected(err, "rank %d of %d as %s says", a->rank, a->ranks, launchers[a->launcher].name);
    err_found(err, "rank %d of %d by %s", b->rank, b->ranks, launchers[b->launcher].name);
    err_advise(err, "start it by one of them, and unset the variables of the other");
    return -EINVAL;
}

/* Of a process for which no launcher speaks. */
static int ask_alone(const char *(*variable)(const char *name), struct ranks *ranks, struct err *err)
{
    int pmix_rank, tasks;
    int status = number_of(variable, "PMIX_RANK", &pmix_rank, err);
    if (!status && pmix_rank >= 0) {
        err_set(err, -EINVAL, "the environment's PMIX_RANK says that this is one of several processes");
        err_expected(err, "how many they are, as mpirun and srun tell");
        err_found(err, "PMIX_RANK=%d alone", pmix_rank);
        err_advise(err, "start them by mpirun or by srun --mpi=pmix; unset PMIX_RANK for one that is alone");
        return -EINVAL;
    }
    if (!status)
        status = number_of(variable, "SLURM_NTASKS", &tasks, err);
    if (status)
        return status;
    ranks->job_tasks = tasks > 0 ? tasks : 0;
    return 0;
}

int ranks_detect(const char *(*variable)(const char *name), struct ranks *ret_ranks, struct err *err)
{
    struct ranks found = {.launcher = RANKS_ALONE, .ranks = 1, .local_rank = 0};
    for (int i = RANKS_TORCHRUN; i < LAUNCHERS; i++) {
        struct ranks said;
        int status = ask(variable, (enum ranks_launcher)i, &said, err);
        if (status)
            return status;
        if (said.ranks == 0 || (i == RANKS_SLURM && found.launcher != RANKS_ALONE))
            continue;
        if (found.launcher != RANKS_ALONE && (found.rank != said.rank || found.ranks != said.ranks))
            return contradict(&found, &said, err);
        if (i == RANKS_TORCHRUN && (status = ask_meeting(variable, &said, err)))
            return status;
        found = said; /* of two that agree the one of MPI, which can let them talk */
    }
    int status = found.launcher == RANKS_ALONE ? ask_alone(variable, &found, err) : 0;
    if (status)
        return status;
    *ret_ranks = found;
    return 0;
}

/* libmillrace_mpi's functions. The library stays loaded: MPI can't be started twice. */
struct mpi_library {
    int (*open)(const struct comm_mpi_options *options, struct comm **ret_comm, struct err *err);
    const char *(*version)(void);
    const char *(*library)(char text[COMM_MPI_TEXT_BYTES]);
};

static int load_mpi(struct mpi_library *ret_mpi, struct err *err)
{
    struct mpi_library mpi;
    static const char *const names[] = {LIBRARY};
    const struct library_function wanted[] = {
        {"comm_mpi_open", &mpi.open}, {"comm_mpi_version", &mpi.version}, {"comm_mpi_library", &mpi.library}};
    void *handle = library_load(names, 1);
    if (!handle) {
        err_set(err, -ENOTSUP, "no MPI here: %.200s", dlerror());
        err_advise(err, "install Open MPI (openmpi-bin, libopenmpi-dev) and build millrace with it");
        return -ENOTSUP;
    }
    const char *lacking = library_find(handle, wanted, sizeof wanted / sizeof wanted[0]);
    if (lacking) {
        err_set(err, -ENOTSUP, "%s lacks %s", LIBRARY, lacking);
        return -ENOTSUP;
    }
    if (strcmp(mpi.version(), MILLRACE_VERSION) != 0) {
        err_set(err, -ENOTSUP, "%s is of another version of millrace", LIBRARY);
        err_expected(err, "%s", MILLRACE_VERSION);
        err_found(err, "%s", mpi.version());
        return -ENOTSUP;
    }
    *ret_mpi = mpi;
    return 0;
}

int ranks_library(char text[RANKS_LIBRARY_BYTES], struct err *err)
{
    static_assert((int)RANKS_LIBRARY_BYTES == (int)COMM_MPI_TEXT_BYTES, "one size");
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
    err_expected(err, "rank %d of %d as %s says", ranks->rank, ranks->ranks, launchers[ranks->launcher].name);
    err_found(err, "rank %d of %d by MPI", comm->rank, comm->ranks);
    err_advise(err, ranks->launcher == RANKS_SLURM
                        ? "start it by srun --mpi=pmix, or by mpirun within the job"
                        : "start it by the mpirun of the MPI that millrace was built with");
    return -EINVAL;
}

static int meet(const struct ranks *ranks, const atomic_int *stop, struct comm **ret_comm, struct err *err)
{
    struct tcp_secret secret;
    const struct tcp_meet_options options = {.address = ranks->meeting.address,
                                             .port = ranks->meeting.port,
                                             .rank = ranks->rank,
                                             .ranks = ranks->ranks,
                                             .token = ranks->meeting.token,
                                             .secret = &secret,
                                             .timeout_ns = MEETING_NS,
                                             .stop = stop};
    if (ranks->ranks > TCP_MEET_RANKS_MAX) {
        err_set(err, -EINVAL, "%d ranks are too many for connections of each with each", ranks->ranks);
        err_expected(err, "at most %d", TCP_MEET_RANKS_MAX);
        err_advise(err, "start them by mpirun or srun");
        return -EINVAL;
    }
    if (ranks->meeting.address[0]) {
        int status = tcp_secret_read(&secret, err);
        if (!status)
            status = comm_tcp_open(&options, ret_comm, err);
        tcp_secret_clear(&secret);
        return status;
    }
    err_set(err, -EINVAL, "%d ranks of torchrun do not know where to meet", ranks->ranks);
    err_advise(err, "give MASTER_ADDR and MASTER_PORT as torchrun does, or start them by mpirun or srun");
    return -EINVAL;
}

int ranks_open(const struct ranks *ranks, const atomic_int *stop, struct comm **ret_comm, struct err *err)
{
    struct mpi_library mpi;
    struct comm *comm;
    if (ranks->ranks == 1)
        return comm_self_open(ret_comm, err);
    if (ranks->launcher == RANKS_TORCHRUN)
        return meet(ranks, stop, ret_comm, err);
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
