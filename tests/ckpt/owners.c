/*
 * owners — tests two runs, in real processes, that compete for one folder: with a lease, one run
 * takes over from a sleeping run. The sleeper's save can then no longer commit.
 */
#include "io/faults/io_fault.h"
#include "tests/ckpt/steps.h"
#include "tests/support/gate.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A sleeper reports twice: when it reaches the held operation, and later with the results of its
 * save and the next one. */
struct sleeper_report {
    int status, next_status;
    struct err detail;
};

struct sleeper {
    pid_t pid;
    int wake_fd, report_fd; /* file descriptors of pipes */
};

static struct ckpt_saver *open_by_lease(struct io *backend, uint64_t period_ms)
{
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = backend,
                                         .groups_count = arrays.groups_count,
                                         .run_id = "owner",
                                         .numerics_id = "any",
                                         .lock = {IO_LOCK_LEASE, period_ms * 1000000}};
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    assert_ok(ckpt_saver_open(&options, arrays.tensors, arrays.count, &saver, &err), &err);
    return saver;
}

/* Saves step 1, begins step 2, pauses at the held operation until woken, and reports the
 * results. */
static void run_sleeper(const char *held, int wake_fd, int report_fd)
{
    struct sleeper_report report = {0};
    char byte = 'r';
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct err err = {0};
    struct io *faulty = steps_open_faulty("seed=0");
    struct ckpt_saver *saver = open_by_lease(faulty, 20);
    arrays_fill(&arrays, 1);
    fixture_save(saver, 1);
    steps_set_faults(faulty, "%s", held);
    if (ckpt_saver_save(saver, 2, FIXTURE_STATE, &err))
        _exit(1);
    while (io_fault_counts(faulty).held_operations == 0)
        gate_pause();
    if (write(report_fd, &byte, 1) != 1 || read(wake_fd, &byte, 1) != 1)
        _exit(1);
    io_fault_release(faulty);
    report.status = ckpt_saver_wait(saver, &report.detail);
    if (ckpt_saver_save(saver, 3, FIXTURE_STATE, &err))
        _exit(1);
    report.next_status = ckpt_saver_wait(saver, &err);
    if (write(report_fd, &report, sizeof report) != sizeof report)
        _exit(1);
    ckpt_saver_close(saver);
    io_close(faulty);
    _exit(0);
}

/* Starts a sleeper and stops it (SIGSTOP) at the operation. */
static struct sleeper start_sleeper(const char *held)
{
    int wake_fd[2], report_fd[2];
    char byte;
    assert_int_equal(pipe(wake_fd) | pipe(report_fd), 0);
    fflush(NULL);
    struct sleeper sleeper = {.pid = fork(), .wake_fd = wake_fd[1], .report_fd = report_fd[0]};
    if (sleeper.pid == 0) {
        close(wake_fd[1]);
        run_sleeper(held, wake_fd[0], report_fd[1]);
    }
    close(wake_fd[0]);
    close(report_fd[1]);
    assert_int_equal(read(sleeper.report_fd, &byte, 1), 1);
    int status;
    assert_int_equal(kill(sleeper.pid, SIGSTOP), 0);
    /* no more heartbeats */
    assert_int_equal(waitpid(sleeper.pid, &status, WUNTRACED), sleeper.pid);
    assert_true(WIFSTOPPED(status));
    return sleeper;
}

static struct sleeper_report wake(const struct sleeper *sleeper)
{
    struct sleeper_report report;
    int status;
    assert_int_equal(write(sleeper->wake_fd, "w", 1), 1);
    assert_int_equal(kill(sleeper->pid, SIGCONT), 0);
    assert_int_equal(read(sleeper->report_fd, &report, sizeof report), sizeof report);
    assert_int_equal(waitpid(sleeper->pid, &status, 0), sleeper->pid);
    assert_int_equal(status, 0);
    close(sleeper->wake_fd);
    close(sleeper->report_fd);
    return report;
}

static void an_owner_that_lost_its_lease_cannot_commit(void **state)
{
    (void)state;
    /* while it writes data; when all data is durable; after its last check of the lease, one rename
     * before the end */
    static const char *const places[] = {"write:hold", "finalize:hold:manifest", "commit:hold"};
    char pid[32];
    snprintf(pid, sizeof pid, "pid=%d ", (int)getpid());
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct sleeper slow = start_sleeper(places[i]);
        /* takes over, and sweeps the files of the sleeper's save */
        struct ckpt_saver *saver = open_by_lease(io, 20);
        assert_int_equal(steps_temporaries_count(), 0);
        assert_int_equal(fixture_list(io, folder, NULL), 1);
        arrays_fill(&arrays, 2);
        fixture_save(saver, 2);
        struct sleeper_report report = wake(&slow);
        assert_int_equal(report.status, -EBUSY);
        assert_non_null(strstr(report.detail.what, "no longer owns the folder"));
        assert_non_null(strstr(report.detail.found, pid));
        assert_int_equal(report.next_status, -EBUSY);
        arrays_fill(&arrays, 3);
        fixture_save(saver, 3); /* the new owner's saves succeed */
        ckpt_saver_close(saver);
        steps_check_listed(3);
        assert_int_equal(steps_temporaries_count(), 0);
        assert_int_equal(test_run("rm -r '%s'/step-*", folder), 0);
    }
}

/* The sleeper checked its lease just before. Its files did not exist yet when the new owner
 * swept. */
static void an_owner_that_begins_after_losing_its_lease_cannot_commit(void **state)
{
    (void)state;
    struct sleeper slow = start_sleeper("begin:hold");
    struct ckpt_saver *saver = open_by_lease(io, 20);
    struct sleeper_report report = wake(&slow);
    assert_int_equal(report.status, -EBUSY);
    assert_int_equal(report.next_status, -EBUSY);
    steps_check_listed(1);
    assert_int_equal(fixture_list(io, folder, NULL), 1);
    assert_int_equal(steps_temporaries_count(), 0);
    ckpt_saver_close(saver);
}

static void a_second_run_is_refused_by_the_heartbeat_of_the_first(void **state)
{
    (void)state;
    struct ckpt_saver *first = open_by_lease(io, 2000), *second = NULL;
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = io,
                                         .groups_count = arrays.groups_count,
                                         .lock = {IO_LOCK_LEASE, 0}};
    struct err err = {0};
    char pid[32];
    assert_int_equal(ckpt_saver_open(&options, arrays.tensors, arrays.count, &second, &err),
                     -EBUSY);
    snprintf(pid, sizeof pid, "pid=%d ", (int)getpid());
    assert_non_null(strstr(err.found, pid));
    arrays_fill(&arrays, 1);
    fixture_save(first, 1); /* the refused saver has no effect on the first */
    ckpt_saver_close(first);
    assert_ok(ckpt_saver_open(&options, arrays.tensors, arrays.count, &second, &err), &err);
    ckpt_saver_close(second);
    steps_check_listed(1);
}

static void a_killed_runs_lease_does_not_block_the_next_run(void **state)
{
    (void)state;
    int status;
    for (int round = 0; round < 3; round++) {
        struct sleeper dead = start_sleeper("commit:hold");
        kill(dead.pid, SIGKILL);
        assert_int_equal(waitpid(dead.pid, &status, 0), dead.pid);
        close(dead.wake_fd);
        close(dead.report_fd);
        struct ckpt_saver *saver = open_by_lease(io, 0);
        assert_int_equal(steps_temporaries_count(), 0);
        ckpt_saver_close(saver);
        steps_check_listed(1);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, steps_set_up, steps_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(an_owner_that_lost_its_lease_cannot_commit),
        CASE(an_owner_that_begins_after_losing_its_lease_cannot_commit),
        CASE(a_second_run_is_refused_by_the_heartbeat_of_the_first),
        CASE(a_killed_runs_lease_does_not_block_the_next_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
