/*
 * lease — one owner per folder on storage with unreliable locks, tested with real processes that
 * are stopped, resumed and killed.
 */
#include "io/local/lease.h"
#include "io/io.h"
#include "tests/support/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    QUICK_MS = 20,  /* for stopped or dead owners: a takeover waits for a few periods */
    LIVE_MS = 2000, /* for live owners: six periods pass only if the machine stalls */
};

static struct io_lock_options lease_options(uint64_t period_ms)
{
    return (struct io_lock_options){.kind = IO_LOCK_LEASE, .period_ns = period_ms * 1000000};
}

/* ---- A process that executes commands: 'a' acquires, 'c' checks, 'r' releases, 'q' quits. ---- */

struct answer {
    int status;
    char found[ERR_TEXT_BYTES_MAX];
};

struct actor {
    pid_t pid;
    int commands, answers;
};

static void run_actor(int commands, int answers, const struct io_lock_options *options)
{
    struct io_lock *lock = NULL;
    char order;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(commands, &order, 1) == 1 && order != 'q') {
        struct answer answer = {0};
        struct err err = {0};
        if (order == 'a')
            answer.status = io->locks->acquire(io, folder, options, &lock, &err);
        else if (order == 'c')
            answer.status = io->locks->check(lock, &err);
        else
            io->locks->release(lock);
        memcpy(answer.found, err.found, sizeof answer.found);
        if (write(answers, &answer, sizeof answer) != sizeof answer)
            break;
    }
    _exit(0);
}

static struct actor start(struct io_lock_options options)
{
    int commands[2], answers[2];
    assert_int_equal(pipe(commands) | pipe(answers), 0);
    fflush(NULL);
    struct actor actor = {.pid = fork()};
    if (actor.pid == 0) {
        close(commands[1]);
        close(answers[0]);
        run_actor(commands[0], answers[1], &options);
    }
    close(commands[0]);
    close(answers[1]);
    actor.commands = commands[1];
    actor.answers = answers[0];
    return actor;
}

static void write_command(const struct actor *actor, char what)
{
    assert_int_equal(write(actor->commands, &what, 1), 1);
}

static struct answer read_answer(const struct actor *actor)
{
    struct answer answer;
    assert_int_equal(read(actor->answers, &answer, sizeof answer), sizeof answer);
    return answer;
}

static struct answer send_command(const struct actor *actor, char what)
{
    write_command(actor, what);
    return read_answer(actor);
}

/* signal_number 0: lets the actor quit. */
static void end_actor(const struct actor *actor, int signal_number)
{
    int status;
    if (signal_number)
        kill(actor->pid, signal_number);
    else
        write_command(actor, 'q');
    assert_int_equal(waitpid(actor->pid, &status, 0), actor->pid);
    close(actor->commands);
    close(actor->answers);
}

static void assert_answer_names(const struct answer *answer, pid_t owner)
{
    char pid[32];
    snprintf(pid, sizeof pid, " pid=%d ", (int)owner);
    assert_int_equal(answer->status, -EBUSY);
    assert_non_null(strstr(answer->found, pid));
    assert_non_null(strstr(answer->found, "host="));
}

/* ---- Lease files in the folder. ---- */

static uint64_t highest_number(void)
{
    uint64_t highest = 0;
    DIR *list = opendir(in_folder(LEASE_FOLDER_NAME));
    assert_non_null(list);
    struct dirent *entry;
    while ((entry = readdir(list))) {
        uint64_t number = strtoull(entry->d_name, NULL, 10);
        highest = number > highest ? number : highest;
    }
    closedir(list);
    return highest;
}

/* Makes the owner's file look as if another machine had written it, so that its process cannot be
 * checked. */
static void make_owner_remote(void)
{
    assert_int_equal(
        test_run("sed -i 's/ boot=[^ ]*/ boot=elsewhere/' '%s'/*", in_folder(LEASE_FOLDER_NAME)),
        0);
}

/* ---- Cases. ---- */

static void a_live_owner_is_named_after_a_heartbeat(void **state)
{
    (void)state;
    struct actor owner = start(lease_options(LIVE_MS)), second = start(lease_options(LIVE_MS));
    assert_int_equal(send_command(&owner, 'a').status, 0);
    struct answer answer = send_command(&second, 'a');
    assert_answer_names(&answer, owner.pid);
    assert_int_equal(send_command(&owner, 'c').status, 0);
    end_actor(&second, 0);
    end_actor(&owner, SIGKILL);
}

static void a_released_lease_is_available_immediately_and_its_numbers_continue(void **state)
{
    (void)state;
    uint64_t number = 0;
    struct io_lock_options options =
        lease_options(600000); /* no test waits for such a long period */
    for (int round = 0; round < 3; round++) {
        struct io_lock *lock = NULL;
        struct err err = {0};
        assert_ok(io->locks->acquire(io, folder, &options, &lock, &err), &err);
        assert_true(highest_number() > number);
        number = highest_number();
        assert_ok(io->locks->check(lock, &err), &err);
        io->locks->release(lock);
    }
    assert_true(highest_number() > number);
}

static void a_killed_owner_of_this_machine_does_not_block(void **state)
{
    (void)state;
    struct actor owner = start(lease_options(600000)), second = start(lease_options(600000));
    assert_int_equal(send_command(&owner, 'a').status, 0);
    end_actor(&owner, SIGKILL);
    assert_int_equal(send_command(&second, 'a').status,
                     0); /* although the owner's period is ten minutes */
    end_actor(&second, 0);
}

static void a_dead_owner_on_another_host_blocks_for_some_periods(void **state)
{
    (void)state;
    struct actor owner = start(lease_options(QUICK_MS)), second = start(lease_options(600000));
    assert_int_equal(send_command(&owner, 'a').status, 0);
    end_actor(&owner, SIGKILL);
    make_owner_remote();
    assert_int_equal(send_command(&second, 'a').status, 0); /* the dead owner's period applies */
    end_actor(&second, 0);
}

static void a_suspended_owner_learns_who_took_its_lease(void **state)
{
    (void)state;
    struct actor slow = start(lease_options(QUICK_MS)), next = start(lease_options(QUICK_MS));
    assert_int_equal(send_command(&slow, 'a').status, 0);
    int status;
    assert_int_equal(kill(slow.pid, SIGSTOP), 0);
    /* the owner's heartbeats stop */
    assert_int_equal(waitpid(slow.pid, &status, WUNTRACED), slow.pid);
    assert_int_equal(send_command(&next, 'a').status, 0);
    write_command(&slow, 'c');
    assert_int_equal(kill(slow.pid, SIGCONT), 0);
    struct answer answer = read_answer(&slow);
    assert_answer_names(&answer, next.pid);
    answer = send_command(&slow, 'c'); /* permanently */
    assert_answer_names(&answer, next.pid);
    send_command(&slow, 'r');
    assert_int_equal(send_command(&next, 'c').status,
                     0); /* the release does not affect the other owner */
    end_actor(&slow, 0);
    end_actor(&next, 0);
}

static void exactly_one_of_many_successors_gets_a_dead_owners_lease(void **state)
{
    (void)state;
    enum { ACTORS = 6 };
    struct actor owner = start(lease_options(QUICK_MS)), actors[ACTORS];
    int winner = -1;
    struct answer answers[ACTORS];
    assert_int_equal(send_command(&owner, 'a').status, 0);
    for (int i = 0; i < ACTORS; i++)
        actors[i] = start(lease_options(LIVE_MS));
    end_actor(&owner, SIGKILL);
    make_owner_remote();
    for (int i = 0; i < ACTORS; i++)
        write_command(&actors[i], 'a');
    for (int i = 0; i < ACTORS; i++) {
        answers[i] = read_answer(&actors[i]);
        assert_true(answers[i].status != 0 || winner < 0);
        winner = answers[i].status == 0 ? i : winner;
    }
    assert_true(winner >= 0);
    for (int i = 0; i < ACTORS; i++)
        if (i != winner)
            assert_answer_names(&answers[i], actors[winner].pid);
    assert_int_equal(send_command(&actors[winner], 'c').status, 0);
    for (int i = 0; i < ACTORS; i++)
        end_actor(&actors[i], SIGKILL);
}

static void a_lock_and_a_lease_exclude_each_other(void **state)
{
    (void)state;
    struct io_lock_options kernel = {.kind = IO_LOCK_KERNEL,
                                     .period_ns = LIVE_MS * UINT64_C(1000000)};
    struct actor locks = start(kernel), leases = start(lease_options(LIVE_MS));
    assert_int_equal(send_command(&locks, 'a').status, 0);
    struct answer answer = send_command(&leases, 'a');
    assert_answer_names(&answer, locks.pid);
    end_actor(&locks, SIGKILL);
    assert_int_equal(send_command(&leases, 'a').status, 0);
    struct actor third = start(kernel);
    answer = send_command(&third, 'a');
    assert_answer_names(&answer, leases.pid);
    end_actor(&leases, SIGKILL);
    assert_int_equal(send_command(&third, 'a').status, 0);
    end_actor(&third, 0);
}

static void a_lease_with_removed_files_can_be_retaken_by_its_owner(void **state)
{
    (void)state;
    struct io_lock_options options = lease_options(600000);
    struct io_lock *lock = NULL;
    struct err err = {0};
    assert_ok(io->locks->acquire(io, folder, &options, &lock, &err), &err);
    assert_int_equal(test_run("rm -r '%s'", in_folder(LEASE_FOLDER_NAME)), 0);
    assert_ok(io->locks->check(lock, &err), &err);
    assert_ok(io->locks->check(lock, &err), &err);
    io->locks->release(lock);
}

static void a_removed_lock_file_loses_the_lock_to_a_new_locker(void **state)
{
    (void)state;
    struct io_lock *first = NULL, *second = NULL;
    struct err err = {0};
    assert_ok(io->locks->acquire(io, folder, NULL, &first, &err), &err);
    assert_int_equal(test_run("rm '%s'", in_folder(".millrace-owner")), 0);
    /* no other owner exists: the lease is acquired again */
    assert_ok(io->locks->check(first, &err), &err);
    assert_int_equal(io->locks->acquire(io, folder, NULL, &second, &err), -EBUSY);
    assert_int_equal(test_run("rm '%s'", in_folder(".millrace-owner")), 0);
    assert_ok(io->locks->acquire(io, folder, NULL, &second, &err), &err);
    assert_int_equal(io->locks->check(first, &err), -EBUSY);
    assert_ok(io->locks->check(second, &err), &err);
    io->locks->release(first);
    io->locks->release(second);
}

/* Makes writes beyond this file size fail, as on a full disk. */
static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void an_unwritable_heartbeat_loses_the_lease(void **state)
{
    (void)state;
    static const rlim_t limits[] = {0, 10}; /* causes an error; causes a partial write */
    struct io_lock_options options = lease_options(600000);
    struct io_lock *lock = NULL;
    struct err err = {0};
    signal(SIGXFSZ, SIG_IGN);
    assert_ok(io->locks->acquire(io, folder, &options, &lock, &err), &err);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        uint64_t number = highest_number();
        limit_file_size(limits[i]);
        int status = io->locks->check(lock, &err);
        limit_file_size(RLIM_INFINITY);
        assert_true(status < 0 && status != -EBUSY);
        assert_int_equal(highest_number(), number);
        assert_ok(io->locks->check(lock, &err), &err); /* there is space again */
        assert_int_equal(highest_number(), number + 1);
    }
    io->locks->release(lock);
    signal(SIGXFSZ, SIG_DFL);
}

/* Creates the file with the next number, as left by a heartbeat whose write succeeded but was
 * reported as failed. */
static void make_next_number(bool is_written)
{
    uint64_t number = highest_number();
    char from[32], to[32];
    snprintf(from, sizeof from, "%020" PRIu64, number);
    snprintf(to, sizeof to, "%020" PRIu64, number + 1);
    assert_int_equal(test_run("cd '%s' && cat %s >%s", in_folder(LEASE_FOLDER_NAME),
                              is_written ? from : "/dev/null", to),
                     0);
}

static void an_owner_does_not_lose_its_lease_to_its_own_heartbeat(void **state)
{
    (void)state;
    struct io_lock_options options = lease_options(600000);
    struct io_lock *lock = NULL;
    struct err err = {0};
    assert_ok(io->locks->acquire(io, folder, &options, &lock, &err), &err);
    uint64_t number = highest_number();
    make_next_number(true);
    assert_ok(io->locks->check(lock, &err), &err);
    assert_int_equal(highest_number(), number + 2); /* continues after that number */
    signal(SIGXFSZ, SIG_IGN);
    limit_file_size(0);
    assert_true(io->locks->check(lock, &err) < 0);
    limit_file_size(RLIM_INFINITY);
    signal(SIGXFSZ, SIG_DFL);
    make_next_number(false); /* a failed heartbeat may leave this */
    assert_ok(io->locks->check(lock, &err), &err);
    assert_int_equal(highest_number(), number + 4);
    make_next_number(true);
    /* a higher number belongs to another owner, regardless of its content */
    make_next_number(true);
    assert_int_equal(io->locks->check(lock, &err), -EBUSY);
    io->locks->release(lock);
}

static void an_unreadable_lease_number_belongs_to_another_owner(void **state)
{
    (void)state;
    struct io_lock_options options = lease_options(600000);
    struct io_lock *lock = NULL;
    struct err err = {0};
    assert_ok(io->locks->acquire(io, folder, &options, &lock, &err), &err);
    make_next_number(false); /* without a failed heartbeat */
    assert_int_equal(io->locks->check(lock, &err), -EBUSY);
    io->locks->release(lock);
}

/* The owner's periods apply, not the ten minutes for an unknown owner. */
static void an_owner_that_died_in_a_heartbeat_expires_after_its_periods(void **state)
{
    (void)state;
    struct actor owner = start(lease_options(QUICK_MS)), second = start(lease_options(600000));
    assert_int_equal(send_command(&owner, 'a').status, 0);
    end_actor(&owner, SIGKILL);
    make_owner_remote();
    make_next_number(false);
    assert_int_equal(send_command(&second, 'a').status, 0);
    end_actor(&second, 0);
}

static void lease_records_round_trip_and_other_text_is_refused(void **state)
{
    (void)state;
    struct lease_record record = {.period_ms = 5000,
                                  .pid = 4711,
                                  .pid_space = 4026531836,
                                  .token = UINT64_C(0xfedcba9876543210),
                                  .boot = "b-1",
                                  .host = "n7"},
                        back = {0};
    char text[LEASE_TEXT_BYTES_MAX], again[LEASE_TEXT_BYTES_MAX];
    for (int is_free = 0; is_free < 2; is_free++) {
        record.is_free = is_free;
        size_t bytes = lease_format(&record, text);
        assert_int_equal(lease_parse(text, bytes, &back), 0);
        assert_int_equal(lease_format(&back, again), bytes);
        assert_memory_equal(text, again, bytes);
        /* as if read while being written */
        for (size_t cut = 0; cut < bytes; cut++)
            assert_int_equal(lease_parse(text, cut, &back), -EBADMSG);
    }
    static const char *const wrong[] = {
        "",
        "\n",
        "millrace-lease 2 state=held period_ms=5 pid=1 pid_space=1 token=0123456789abcdef boot=b "
        "host=h\n",
        "millrace-lease 1 state=held period_ms=0 pid=1 pid_space=1 token=0123456789abcdef boot=b "
        "host=h\n",
        "millrace-lease 1 state=held period_ms=600001 pid=1 pid_space=1 token=0123456789abcdef "
        "boot=b "
        "host=h\n",
        "millrace-lease 1 state=held period_ms=5 pid=0 pid_space=1 token=0123456789abcdef boot=b "
        "host=h\n",
        "millrace-lease 1 state=held period_ms=5 pid=2147483648 pid_space=1 token=0123456789abcdef "
        "boot=b "
        "host=h\n",
        "millrace-lease 1 state=held period_ms=5 pid=1 pid_space=18446744073709551616 "
        "token=0123456789abcdef "
        "boot=b host=h\n",
        "millrace-lease 1 state=held period_ms=5 pid=1 pid_space=1 token=0123456789abcdef boot= "
        "host=h\n",
        "millrace-lease 1 state=held period_ms=5 pid=1 pid_space=1 token=0123456789abcdef boot=b "
        "host=h h\n",
        "millrace-lease 1 state=held period_ms=5 pid=1 pid_space=1 token=0123456789abcdeF boot=b "
        "host=h\n",
        "millrace-lease 1 state=held period_ms=5 pid=1 pid_space=1 token=0123456789abcde boot=b "
        "host=h\n",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(lease_parse(wrong[i], strlen(wrong[i]), &back), -EBADMSG);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_live_owner_is_named_after_a_heartbeat),
        CASE(a_released_lease_is_available_immediately_and_its_numbers_continue),
        CASE(a_killed_owner_of_this_machine_does_not_block),
        CASE(a_dead_owner_on_another_host_blocks_for_some_periods),
        CASE(a_suspended_owner_learns_who_took_its_lease),
        CASE(exactly_one_of_many_successors_gets_a_dead_owners_lease),
        CASE(a_lock_and_a_lease_exclude_each_other),
        CASE(a_lease_with_removed_files_can_be_retaken_by_its_owner),
        CASE(a_removed_lock_file_loses_the_lock_to_a_new_locker),
        CASE(an_unwritable_heartbeat_loses_the_lease),
        CASE(an_owner_does_not_lose_its_lease_to_its_own_heartbeat),
        CASE(an_unreadable_lease_number_belongs_to_another_owner),
        CASE(an_owner_that_died_in_a_heartbeat_expires_after_its_periods),
        CASE(lease_records_round_trip_and_other_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
