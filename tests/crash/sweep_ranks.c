/*
 * sweep_ranks — see sweep_ranks.h.
 */
#include "tests/crash/sweep_ranks.h"

#include "base/philox.h"
#include "tests/crash/rank_run.h"
#include "tests/crash/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANK_PROGRAM TEST_BUILD_DIR "/tests/crash/crash_rank"
#define LAUNCHER     TEST_SOURCE_DIR "/tests/support/mpirun.sh"

enum { CALLS_MAX = 5000, LINGER_MAX_NS = 400000 };

extern char **environ;

/* How a rank ends. */
struct kill_point {
    int rank;
    unsigned at;    /* dies at its n-th call; 0: does not */
    unsigned after; /* killed from outside some time after this many calls; 0: not killed */
    uint64_t linger_ns;
};

/* The file that the ranks share, and the output of mpirun and the ranks. */
struct stage {
    struct rank_run *run;
    int fd;
    char path[IO_PATH_BYTES_MAX], said_path[IO_PATH_BYTES_MAX];
};

const char *sweep_ranks_skip_reason(void)
{
    if (access(RANK_PROGRAM, X_OK))
        return "this build found no MPI";
    return system("command -v mpirun >/dev/null") ? "mpirun is not installed" : NULL;
}

static struct stage open_stage(const struct sweep *sweep)
{
    struct stage stage;
    snprintf(stage.path, sizeof stage.path, "%s/run", sweep->crash_folder);
    snprintf(stage.said_path, sizeof stage.said_path, "%s/said", sweep->crash_folder);
    stage.fd = open(stage.path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (stage.fd < 0 || ftruncate(stage.fd, sizeof *stage.run))
        abort();
    void *run = mmap(NULL, sizeof *stage.run, PROT_READ | PROT_WRITE, MAP_SHARED, stage.fd, 0);
    if (run == MAP_FAILED)
        abort();
    stage.run = run;
    return stage;
}

static void close_stage(struct stage *stage)
{
    munmap(stage->run, sizeof *stage->run);
    close(stage->fd);
    unlink(stage->path);
    unlink(stage->said_path);
}

static void set_run(const struct stage *stage, const struct sweep *sweep, const struct plan *plan)
{
    struct rank_run *run = stage->run;
    memset(run, 0, sizeof *run);
    run->plan = *plan;
    run->plan.name = NULL;
    snprintf(run->folder, sizeof run->folder, "%s", sweep->folder);
    run->engine =
        strcmp(sweep->io->ops->name, "io_uring") == 0 ? IO_ENGINE_URING : IO_ENGINE_THREADS;
    run->dying_rank = RANK_RUN_NOBODY;
}

/* ---- Running ranks. ---- */

static pid_t launch(const struct stage *stage, int ranks)
{
    char count[16];
    const char *words[] = {LAUNCHER, count, RANK_PROGRAM, stage->path, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    snprintf(count, sizeof count, "%d", ranks);
    if (posix_spawn_file_actions_init(&actions) ||
        posix_spawn_file_actions_addopen(&actions, 1, stage->said_path,
                                         O_WRONLY | O_CREAT | O_TRUNC, 0666) ||
        posix_spawn_file_actions_adddup2(&actions, 1, 2) ||
        posix_spawn(&child, LAUNCHER, &actions, NULL, (char *const *)words, environ))
        abort();
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

static void pause_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* Leaves the child waitable. */
static bool has_ended(pid_t child)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid == child;
}

/* Sends SIGKILL to the rank some time after this many of its calls, through a pidfd because the
 * rank may end meanwhile. Returns false if it ended first. */
static bool kill_from_outside(const struct stage *stage, pid_t mpirun,
                              const struct kill_point *kill_point)
{
    while (atomic_load(&stage->run->calls[kill_point->rank]) < kill_point->after) {
        if (has_ended(mpirun))
            return false;
        pause_ns(20000);
    }
    int rank = (int)syscall(SYS_pidfd_open, atomic_load(&stage->run->pids[kill_point->rank]), 0);
    if (rank < 0)
        return false;
    pause_ns(kill_point->linger_ns);
    bool sent = syscall(SYS_pidfd_send_signal, rank, SIGKILL, NULL, 0) == 0;
    close(rank);
    return sent;
}

/* Returns mpirun's status once mpirun and all ranks have ended. */
static int run_ranks(const struct stage *stage, int ranks, const struct kill_point *kill_point,
                     bool *ret_died)
{
    int status;
    pid_t mpirun = launch(stage, ranks);
    bool sent = kill_point && kill_point->after > 0 && kill_from_outside(stage, mpirun, kill_point);
    while (waitpid(mpirun, &status, 0) < 0 && errno == EINTR)
        ;
    if (flock(stage->fd, LOCK_EX) || flock(stage->fd, LOCK_UN))
        abort();
    *ret_died =
        status && (sent || (kill_point && kill_point->at > 0 &&
                            atomic_load(&stage->run->calls[kill_point->rank]) >= kill_point->at));
    return status;
}

/* ---- Checking what they leave. ---- */

static void explain_status(const struct stage *stage, int status, const char *who,
                           char why[CHECK_WHY_BYTES])
{
    char said[600] = "";
    FILE *file = fopen(stage->said_path, "r");
    if (file && fread(said, 1, sizeof said - 1, file) == 0)
        snprintf(said, sizeof said, "nothing");
    if (file)
        fclose(file);
    snprintf(why, CHECK_WHY_BYTES, "%s ended with %#x, saying %s", who, (unsigned)status, said);
}

/* A different number of ranks loads what was found, sweeps the folder and saves another step. */
static bool check_next_run(struct sweep *sweep, const struct stage *stage, int ranks,
                           const struct step_set *found, char why[CHECK_WHY_BYTES])
{
    struct plan_save further = {.step = 500000, .version = 500000};
    struct plan plan = *sweep->plan;
    bool died;
    plan.saves[0] = further;
    plan.saves_count = 1;
    set_run(stage, sweep, &plan);
    stage->run->loads_newest = true;
    if (found->count > 0)
        stage->run->newest = found->steps[found->count - 1];
    int status = run_ranks(stage, ranks, NULL, &died);
    if (status)
        explain_status(stage, status, "the next run", why);
    if (status || !check_swept(sweep->look_io, sweep->folder, why))
        return false;
    plan.saves_count = 0;
    struct expected after = {.plan = &plan, .before = *found};
    step_set_save(&after.before, further, plan.keep);
    return check_folder(&after, sweep->look_io, sweep->folder, why);
}

static bool look(struct sweep *sweep, const struct stage *stage, unsigned said, int next_ranks,
                 char why[CHECK_WHY_BYTES])
{
    struct expected expected = {.plan = sweep->plan, .before = sweep->step_set};
    struct step_set found;
    *why = '\0';
    expected_set_acknowledged(&expected, said);
    return check_steps(sweep->plan, sweep->look_io, sweep->folder, &found, why) &&
           expected_holds(&expected, &found, why, CHECK_WHY_BYTES) &&
           check_next_run(sweep, stage, next_ranks, &found, why);
}

/* ---- Kills. ---- */

/* The number of ranks for the next run, which differs from the killed run's. */
static int other_ranks(int ranks, unsigned n)
{
    return 1 + (int)(((unsigned)ranks + n % (RANK_RUN_RANKS_MAX - 1)) % RANK_RUN_RANKS_MAX);
}

static bool kill_one(struct sweep *sweep, const struct stage *stage,
                     const struct kill_point *kill_point, bool *ret_died,
                     struct sweep_finding *finding)
{
    struct rank_run *run = stage->run;
    char why[CHECK_WHY_BYTES] = "";
    tree_store(&sweep->base, sweep->folder);
    set_run(stage, sweep, sweep->plan);
    run->dying_rank = kill_point->at > 0 ? kill_point->rank : RANK_RUN_NOBODY;
    run->dying_call = kill_point->at;
    int status = run_ranks(stage, sweep->plan->ranks, kill_point, ret_died);
    unsigned calls = atomic_load(&run->calls[kill_point->rank]), said = atomic_load(&run->said);
    bool holds = !status || *ret_died;
    if (!holds)
        explain_status(stage, status, "nobody was killed, and the run", why);
    recorder_skip_syncs(true);
    holds = holds && look(sweep, stage, said,
                          other_ranks(sweep->plan->ranks, kill_point->at + kill_point->after), why);
    recorder_skip_syncs(false);
    if (!holds)
        snprintf(finding->why, sizeof finding->why,
                 "%s, rank %d of %d killed at call %u%s (%u calls, %u said): %s", sweep->plan->name,
                 kill_point->rank, sweep->plan->ranks,
                 kill_point->at > 0 ? kill_point->at : kill_point->after,
                 kill_point->after > 0 ? " or later" : "", calls, said, why);
    return holds;
}

bool sweep_ranks_each(struct sweep *sweep, struct sweep_counts *counts,
                      struct sweep_finding *finding)
{
    struct stage stage = open_stage(sweep);
    bool holds = true;
    for (int rank = 0; rank < sweep->plan->ranks && holds; rank++) {
        bool died = true;
        for (unsigned at = 1; died && holds && at < CALLS_MAX; at++) {
            holds = kill_one(sweep, &stage, &(struct kill_point){.rank = rank, .at = at}, &died,
                             finding);
            counts->kills += died;
            counts->operations += died;
        }
    }
    close_stage(&stage);
    return holds;
}

bool sweep_ranks_some(struct sweep *sweep, uint64_t seed, unsigned kills,
                      struct sweep_counts *counts, struct sweep_finding *finding)
{
    struct stage stage = open_stage(sweep);
    unsigned calls[RANK_RUN_RANKS_MAX];
    bool died, holds;
    set_run(&stage, sweep, sweep->plan);
    tree_store(&sweep->base, sweep->folder);
    int status = run_ranks(&stage, sweep->plan->ranks, NULL, &died);
    for (int rank = 0; rank < RANK_RUN_RANKS_MAX; rank++)
        calls[rank] = atomic_load(&stage.run->calls[rank]);
    holds = status == 0;
    if (!holds)
        explain_status(&stage, status, "a run without kills", finding->why);
    for (unsigned i = 0; i < kills && holds; i++) {
        struct philox_block random = philox(seed, 7, i);
        struct kill_point kill_point = {.rank =
                                            (int)(random.word[0] % (unsigned)sweep->plan->ranks)};
        unsigned at = 1 + random.word[1] % calls[kill_point.rank];
        if (i % 2 == 0)
            kill_point.at = at;
        else
            kill_point.after = at;
        kill_point.linger_ns = random.word[2] % LINGER_MAX_NS;
        holds = kill_one(sweep, &stage, &kill_point, &died, finding);
        counts->kills += died;
        counts->operations += died && kill_point.at > 0;
    }
    close_stage(&stage);
    return holds;
}
