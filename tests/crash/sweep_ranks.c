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

enum { CALLS_MAX = 5000, DELAY_MAX_NS = 400000 };

extern char **environ;

/* How a rank ends. */
struct kill_point {
    int rank;
    unsigned at_call;     /* dies at its n-th call; 0: does not */
    unsigned after_calls; /* killed from outside some time after this many calls; 0: not killed */
    uint64_t delay_ns;
};

/* The file that the ranks share, and the output of mpirun and the ranks. */
struct run_files {
    struct rank_run *run;
    int fd;
    char path[IO_PATH_BYTES_MAX], output_path[IO_PATH_BYTES_MAX];
};

const char *sweep_ranks_skip_reason(void)
{
    if (access(RANK_PROGRAM, X_OK))
        return "this build found no MPI";
    return system("command -v mpirun >/dev/null") ? "mpirun is not installed" : NULL;
}

static struct run_files open_run_files(const struct sweep *sweep)
{
    struct run_files files;
    snprintf(files.path, sizeof files.path, "%s/run", sweep->crash_folder);
    snprintf(files.output_path, sizeof files.output_path, "%s/output", sweep->crash_folder);
    files.fd = open(files.path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (files.fd < 0 || ftruncate(files.fd, sizeof *files.run))
        abort();
    void *run = mmap(NULL, sizeof *files.run, PROT_READ | PROT_WRITE, MAP_SHARED, files.fd, 0);
    if (run == MAP_FAILED)
        abort();
    files.run = run;
    return files;
}

static void close_run_files(struct run_files *files)
{
    munmap(files->run, sizeof *files->run);
    close(files->fd);
    unlink(files->path);
    unlink(files->output_path);
}

static void write_rank_run(const struct run_files *files, const struct sweep *sweep,
                           const struct plan *plan)
{
    struct rank_run *run = files->run;
    memset(run, 0, sizeof *run);
    run->plan = *plan;
    run->plan.name = NULL;
    snprintf(run->folder, sizeof run->folder, "%s", sweep->folder);
    run->engine =
        strcmp(sweep->io->ops->name, "io_uring") == 0 ? IO_ENGINE_URING : IO_ENGINE_THREADS;
    run->dying_rank = RANK_RUN_NOBODY;
}

/* ---- Running ranks. ---- */

static pid_t launch(const struct run_files *files, int ranks)
{
    char count[16];
    const char *words[] = {LAUNCHER, count, RANK_PROGRAM, files->path, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    snprintf(count, sizeof count, "%d", ranks);
    if (posix_spawn_file_actions_init(&actions) ||
        posix_spawn_file_actions_addopen(&actions, 1, files->output_path,
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
static bool kill_from_outside(const struct run_files *files, pid_t mpirun,
                              const struct kill_point *kill_point)
{
    while (atomic_load(&files->run->calls[kill_point->rank]) < kill_point->after_calls) {
        if (has_ended(mpirun))
            return false;
        pause_ns(20000);
    }
    int rank = (int)syscall(SYS_pidfd_open, atomic_load(&files->run->pids[kill_point->rank]), 0);
    if (rank < 0)
        return false;
    pause_ns(kill_point->delay_ns);
    bool sent = syscall(SYS_pidfd_send_signal, rank, SIGKILL, NULL, 0) == 0;
    close(rank);
    return sent;
}

/* Returns mpirun's status once mpirun and all ranks have ended. */
static int run_ranks(const struct run_files *files, int ranks, const struct kill_point *kill_point,
                     bool *ret_died)
{
    int status;
    pid_t mpirun = launch(files, ranks);
    bool sent =
        kill_point && kill_point->after_calls > 0 && kill_from_outside(files, mpirun, kill_point);
    while (waitpid(mpirun, &status, 0) < 0 && errno == EINTR)
        ;
    if (flock(files->fd, LOCK_EX) || flock(files->fd, LOCK_UN))
        abort();
    *ret_died =
        status &&
        (sent || (kill_point && kill_point->at_call > 0 &&
                  atomic_load(&files->run->calls[kill_point->rank]) >= kill_point->at_call));
    return status;
}

/* ---- Checking the remaining steps. ---- */

static void explain_status(const struct run_files *files, int status, const char *who,
                           char why[CHECK_WHY_BYTES])
{
    char output[600] = "";
    FILE *file = fopen(files->output_path, "r");
    if (file && fread(output, 1, sizeof output - 1, file) == 0)
        snprintf(output, sizeof output, "nothing");
    if (file)
        fclose(file);
    snprintf(why, CHECK_WHY_BYTES, "%s ended with %#x and printed %s", who, (unsigned)status,
             output);
}

/* A different number of ranks loads what was found, sweeps the folder and saves another step. */
static bool check_next_run(struct sweep *sweep, const struct run_files *files, int ranks,
                           const struct step_set *found, char why[CHECK_WHY_BYTES])
{
    struct plan_save further = {.step = 500000, .version = 500000};
    struct plan plan = *sweep->plan;
    bool died;
    plan.saves[0] = further;
    plan.saves_count = 1;
    write_rank_run(files, sweep, &plan);
    files->run->loads_newest = true;
    if (found->count > 0)
        files->run->newest = found->steps[found->count - 1];
    int status = run_ranks(files, ranks, NULL, &died);
    if (status)
        explain_status(files, status, "the next run", why);
    if (status || !check_no_leftovers(sweep->check_io, sweep->folder, why))
        return false;
    plan.saves_count = 0;
    struct expected after = {.plan = &plan, .before = *found};
    step_set_save(&after.before, further, plan.keep);
    return check_folder(&after, sweep->check_io, sweep->folder, why);
}

static bool check_remaining_steps(struct sweep *sweep, const struct run_files *files,
                                  unsigned notes_count, int next_ranks, char why[CHECK_WHY_BYTES])
{
    struct expected expected = {.plan = sweep->plan, .before = sweep->step_set};
    struct step_set found;
    *why = '\0';
    expected_from_note_count(&expected, notes_count);
    return check_steps(sweep->plan, sweep->check_io, sweep->folder, &found, why) &&
           expected_allows(&expected, &found, why, CHECK_WHY_BYTES) &&
           check_next_run(sweep, files, next_ranks, &found, why);
}

/* ---- Kills. ---- */

/* The number of ranks for the next run, which differs from the killed run's. */
static int pick_next_ranks(int ranks, unsigned n)
{
    return 1 + (int)(((unsigned)ranks + n % (RANK_RUN_RANKS_MAX - 1)) % RANK_RUN_RANKS_MAX);
}

static bool kill_one(struct sweep *sweep, const struct run_files *files,
                     const struct kill_point *kill_point, bool *ret_died,
                     struct sweep_finding *finding)
{
    struct rank_run *run = files->run;
    char why[CHECK_WHY_BYTES] = "";
    tree_store(&sweep->base, sweep->folder);
    write_rank_run(files, sweep, sweep->plan);
    run->dying_rank = kill_point->at_call > 0 ? kill_point->rank : RANK_RUN_NOBODY;
    run->dying_call = kill_point->at_call;
    int status = run_ranks(files, sweep->plan->ranks, kill_point, ret_died);
    unsigned calls = atomic_load(&run->calls[kill_point->rank]),
             notes_count = atomic_load(&run->notes_count);
    bool holds = !status || *ret_died;
    if (!holds)
        explain_status(files, status, "nobody was killed, and the run", why);
    recorder_skip_syncs(true);
    holds = holds &&
            check_remaining_steps(
                sweep, files, notes_count,
                pick_next_ranks(sweep->plan->ranks, kill_point->at_call + kill_point->after_calls),
                why);
    recorder_skip_syncs(false);
    if (!holds)
        snprintf(finding->why, sizeof finding->why,
                 "%s, rank %d of %d killed at call %u%s (%u calls, %u notes): %s",
                 sweep->plan->name, kill_point->rank, sweep->plan->ranks,
                 kill_point->at_call > 0 ? kill_point->at_call : kill_point->after_calls,
                 kill_point->after_calls > 0 ? " or later" : "", calls, notes_count, why);
    return holds;
}

bool sweep_ranks_each(struct sweep *sweep, struct sweep_counts *counts,
                      struct sweep_finding *finding)
{
    struct run_files files = open_run_files(sweep);
    bool holds = true;
    for (int rank = 0; rank < sweep->plan->ranks && holds; rank++) {
        bool died = true;
        for (unsigned at = 1; died && holds && at < CALLS_MAX; at++) {
            holds = kill_one(sweep, &files, &(struct kill_point){.rank = rank, .at_call = at},
                             &died, finding);
            counts->kills += died;
            counts->operations += died;
        }
    }
    close_run_files(&files);
    return holds;
}

bool sweep_ranks_some(struct sweep *sweep, uint64_t seed, unsigned kills,
                      struct sweep_counts *counts, struct sweep_finding *finding)
{
    struct run_files files = open_run_files(sweep);
    unsigned calls[RANK_RUN_RANKS_MAX];
    bool died, holds;
    write_rank_run(&files, sweep, sweep->plan);
    tree_store(&sweep->base, sweep->folder);
    int status = run_ranks(&files, sweep->plan->ranks, NULL, &died);
    for (int rank = 0; rank < RANK_RUN_RANKS_MAX; rank++)
        calls[rank] = atomic_load(&files.run->calls[rank]);
    holds = status == 0;
    if (!holds)
        explain_status(&files, status, "a run without kills", finding->why);
    for (unsigned i = 0; i < kills && holds; i++) {
        struct philox_block random = philox(seed, 7, i);
        struct kill_point kill_point = {.rank =
                                            (int)(random.word[0] % (unsigned)sweep->plan->ranks)};
        unsigned at = 1 + random.word[1] % calls[kill_point.rank];
        if (i % 2 == 0)
            kill_point.at_call = at;
        else
            kill_point.after_calls = at;
        kill_point.delay_ns = random.word[2] % DELAY_MAX_NS;
        holds = kill_one(sweep, &files, &kill_point, &died, finding);
        counts->kills += died;
        counts->operations += died && kill_point.at_call > 0;
    }
    close_run_files(&files);
    return holds;
}
