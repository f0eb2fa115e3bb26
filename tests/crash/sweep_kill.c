/*
 * sweep_kill — see sweep.h: kills of saving processes, and code shared by both kinds of crash.
 */
#include "tests/crash/sweep.h"

#include "base/philox.h"
#include "tests/crash/recorder.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CALLS_MAX = 5000, DELAY_MAX_NS = 400000 };

bool sweep_prepare(struct sweep *sweep, const struct step_set *before,
                   struct sweep_finding *finding)
{
    struct plan keeping = *sweep->plan;
    struct err err = {0};
    int status = 0;
    keeping.keep = 0;
    sweep->step_set = *before;
    tree_clear_folder(sweep->folder);
    for (unsigned i = 0; i < before->count && !status; i++)
        status =
            workload_save_once(&keeping, sweep->check_io, sweep->folder, before->steps[i], &err);
    tree_scan(&sweep->base, sweep->folder, NULL, NULL);
    if (status)
        err_format(&err, finding->why, sizeof finding->why);
    return status == 0;
}

void sweep_deinit(struct sweep *sweep)
{
    tree_deinit(&sweep->base);
}

/* ---- Kills. ---- */

/* Memory shared by parent and child. */
struct child_counters {
    atomic_uint calls, notes_count;
};

/* How a child ends. */
struct kill_point {
    unsigned at_call;     /* dies at its n-th call; 0: does not */
    bool in_the_middle;   /* dies in the middle of that call, a write */
    unsigned after_calls; /* killed from outside some time after this many calls; 0: not killed */
    uint64_t delay_ns;
};

static void pause_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

static void run_child(const struct sweep *sweep, const struct kill_point *kill_point,
                      struct child_counters *shared)
{
    recorder_count_calls_in(&shared->calls);
    recorder_kill_at(kill_point->at_call, kill_point->in_the_middle);
    unsigned failed =
        workload_run(sweep->plan, sweep->io, sweep->folder, NULL, &shared->notes_count);
    _exit(failed > 0);
}

/* Returns the child's waitpid status. */
static int wait_or_kill(pid_t child, const struct kill_point *kill_point,
                        const struct child_counters *shared)
{
    int status;
    while (kill_point->after_calls > 0 && atomic_load(&shared->calls) < kill_point->after_calls) {
        if (waitpid(child, &status, WNOHANG) == child)
            return status;
        pause_ns(20000);
    }
    if (kill_point->after_calls > 0) {
        pause_ns(kill_point->delay_ns);
        kill(child, SIGKILL);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* Runs the plan in a process that dies, and checks what is left. */
static bool kill_one(struct sweep *sweep, const struct kill_point *kill_point,
                     struct child_counters *shared, bool *ret_died, struct sweep_finding *finding)
{
    struct expected expected = {.plan = sweep->plan, .before = sweep->step_set};
    char why[CHECK_WHY_BYTES];
    tree_store(&sweep->base, sweep->folder);
    atomic_store(&shared->calls, 0);
    atomic_store(&shared->notes_count, 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        run_child(sweep, kill_point, shared);
    int status = child < 0 ? 0xff00 : wait_or_kill(child, kill_point, shared);
    *ret_died = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    expected_from_note_count(&expected, atomic_load(&shared->notes_count));
    recorder_skip_syncs(true);
    bool holds = check_folder(&expected, sweep->check_io, sweep->folder, why);
    recorder_skip_syncs(false);
    if (holds && !*ret_died && status) {
        snprintf(why, sizeof why, "the process ended by itself, with %#x", (unsigned)status);
        holds = false;
    }
    if (!holds)
        snprintf(finding->why, sizeof finding->why,
                 "%s, killed at call %u%s (%u calls, %u notes): %s", sweep->plan->name,
                 kill_point->at_call > 0 ? kill_point->at_call : kill_point->after_calls,
                 kill_point->in_the_middle     ? " in the middle"
                 : kill_point->after_calls > 0 ? " or later"
                                               : "",
                 atomic_load(&shared->calls), atomic_load(&shared->notes_count), why);
    return holds;
}

static struct child_counters *map_shared(void)
{
    struct child_counters *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        abort();
    return shared;
}

bool sweep_kill_each(struct sweep *sweep, struct sweep_counts *counts,
                     struct sweep_finding *finding)
{
    struct child_counters *shared = map_shared();
    bool holds = true, died = true;
    for (unsigned at = 1; died && holds && at < CALLS_MAX; at++) {
        holds = kill_one(sweep, &(struct kill_point){.at_call = at}, shared, &died, finding);
        counts->kills += died;
        counts->operations += died;
        if (!died || !holds)
            break;
        holds = kill_one(sweep, &(struct kill_point){.at_call = at, .in_the_middle = true}, shared,
                         &died, finding);
        counts->kills += died;
    }
    munmap(shared, sizeof *shared);
    return holds;
}

bool sweep_kill_random(struct sweep *sweep, uint64_t seed, unsigned kills,
                       struct sweep_counts *counts, struct sweep_finding *finding)
{
    struct child_counters *shared = map_shared();
    bool died, holds = kill_one(sweep, &(struct kill_point){0}, shared, &died, finding);
    unsigned calls = atomic_load(&shared->calls);
    for (unsigned i = 0; i < kills && holds; i++) {
        struct philox_block random = philox(seed, 2, i);
        struct kill_point kill_point = {.after_calls = 1 + random.word[0] % calls,
                                        .delay_ns = random.word[1] % DELAY_MAX_NS};
        holds = kill_one(sweep, &kill_point, shared, &died, finding);
        counts->kills += died;
    }
    munmap(shared, sizeof *shared);
    return holds;
}

/* ---- Another owner. ---- */

/* Tries to acquire the folder whenever the plan is known to own it. */
struct intruder {
    struct sweep *sweep;
    atomic_uint notes_count; /* set by the plan */
    atomic_uint tries, admitted;
};

static void try_to_acquire(void *context, unsigned n)
{
    struct intruder *intruder = context;
    struct sweep *sweep = intruder->sweep;
    unsigned notes_count = atomic_load(&intruder->notes_count);
    (void)n;
    if (notes_count == 0 || notes_count > WORKLOAD_DONE(sweep->plan->saves_count - 1))
        return;
    atomic_fetch_add(&intruder->tries, 1);
    if (workload_acquire_once(sweep->plan, sweep->check_io, sweep->folder, NULL) != -EBUSY)
        atomic_fetch_add(&intruder->admitted, 1);
}

bool sweep_second_owner(struct sweep *sweep, struct sweep_counts *counts,
                        struct sweep_finding *finding)
{
    struct intruder intruder = {.sweep = sweep};
    struct expected expected = {.plan = sweep->plan, .before = sweep->step_set};
    char why[CHECK_WHY_BYTES];
    tree_store(&sweep->base, sweep->folder);
    recorder_set_callback(try_to_acquire, &intruder);
    unsigned failed =
        workload_run(sweep->plan, sweep->io, sweep->folder, NULL, &intruder.notes_count);
    recorder_set_callback(NULL, NULL);
    counts->operations += atomic_load(&intruder.tries);
    expected_from_note_count(&expected, atomic_load(&intruder.notes_count));
    bool holds = check_folder(&expected, sweep->check_io, sweep->folder, why);
    if (holds && failed == 0 && atomic_load(&intruder.admitted) == 0)
        return true;
    snprintf(finding->why, sizeof finding->why,
             "%s, with another owner about: %u of %u tries were let in, %u saves failed; %s",
             sweep->plan->name, atomic_load(&intruder.admitted), atomic_load(&intruder.tries),
             failed, holds ? "the folder is sound" : why);
    return false;
}
