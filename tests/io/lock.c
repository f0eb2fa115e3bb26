/*
 * lock — one owner per folder, tested with real processes.
 */
#include "io/io.h"
#include "tests/support/child.h"
#include "tests/support/engines.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int take_lock(void *context)
{
    struct io_lock *lock;
    (void)context;
    return io->locks->acquire(io, folder, NULL, &lock, NULL);
}

/* A process that holds the lock until it is killed. */
static pid_t start_holder(void)
{
    return child_start(take_lock, NULL);
}

static void a_second_process_is_refused_with_host_and_pid(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_lock *lock = NULL;
    char host[100] = "", pid[30];
    pid_t child = start_holder();
    assert_int_equal(io->locks->acquire(io, folder, NULL, &lock, &err), -EBUSY);
    child_kill(child);
    assert_null(lock);
    gethostname(host, sizeof host - 1);
    snprintf(pid, sizeof pid, "pid=%ld ", (long)child);
    assert_non_null(strstr(err.found, host));
    assert_non_null(strstr(err.found, pid));
    assert_non_null(strstr(err.found, "boot="));
    assert_string_equal(err.path, folder);
}

static void the_lock_ends_with_its_process(void **state)
{
    (void)state;
    for (int round = 0; round < 5; round++) {
        struct err err = {0};
        struct io_lock *lock = NULL;
        child_kill(start_holder());
        assert_ok(io->locks->acquire(io, folder, NULL, &lock, &err), &err);
        io->locks->release(lock);
    }
    io->locks->release(NULL);
}

static void a_process_cannot_lock_twice(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_lock *first = NULL, *second = NULL;
    assert_ok(io->locks->acquire(io, folder, NULL, &first, &err), &err);
    assert_int_equal(io->locks->acquire(io, folder, NULL, &second, &err), -EBUSY);
    io->locks->release(first);
    assert_ok(io->locks->acquire(io, folder, NULL, &second, &err), &err);
    io->locks->release(second);
}

/* Unlike POSIX locks, which closing any descriptor of the file in the same process releases. */
static void reading_the_owner_file_does_not_drop_the_lock(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_lock *lock = NULL, *second = NULL;
    char text[300];
    assert_ok(io->locks->acquire(io, folder, NULL, &lock, &err), &err);
    char path[TEST_PATH_BYTES_MAX + 32];
    snprintf(path, sizeof path, "%s/.millrace-owner", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_non_null(strstr(text, "pid="));
    assert_int_equal(io->locks->acquire(io, folder, NULL, &second, &err), -EBUSY);
    io->locks->release(lock);
}

static void a_removed_lock_file_locks_nothing(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_lock *lock = NULL, *second = NULL, *third = NULL;
    assert_ok(io->locks->acquire(io, folder, NULL, &lock, &err), &err);
    /* as a user might by mistake */
    assert_int_equal(test_run("rm '%s/.millrace-owner'", folder), 0);
    assert_ok(io->locks->acquire(io, folder, NULL, &second, &err), &err);
    io->locks->release(lock);
    assert_int_equal(io->locks->acquire(io, folder, NULL, &third, &err), -EBUSY);
    io->locks->release(second);
}

static void a_missing_folder_is_named(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_lock *lock = NULL;
    char path[TEST_PATH_BYTES_MAX + 32];
    snprintf(path, sizeof path, "%s/absent", folder);
    assert_int_equal(io->locks->acquire(io, path, NULL, &lock, &err), -ENOENT);
    assert_non_null(strstr(err.path, "/absent"));
}

/* One of many competitors: starts when the pipe `go` is closed, reports its status, and keeps the
 * lock until `end` is closed. */
static void run_competitor(int go, int report, int end)
{
    struct io_lock *lock;
    struct err err = {0};
    char byte;
    if (read(go, &byte, 1) != 0)
        _exit(99);
    int status = io->locks->acquire(io, folder, NULL, &lock, &err);
    byte = status == 0 ? 'w' : status == -EBUSY && strstr(err.found, "pid=") ? 'r' : '?';
    _exit(write(report, &byte, 1) == 1 && read(end, &byte, 1) == 0 ? 0 : 98);
}

static void only_one_of_many_concurrent_processes_gets_the_lock(void **state)
{
    (void)state;
    enum { CHILDREN = 8 };
    int go[2], report[2], end[2], winners = 0, refused = 0;
    char told;
    assert_int_equal(pipe(go) | pipe(report) | pipe(end), 0);
    fflush(NULL);
    for (int i = 0; i < CHILDREN; i++) {
        if (fork() == 0) {
            close(go[1]);
            close(end[1]);
            run_competitor(go[0], report[1], end[0]);
        }
    }
    close(go[1]);
    close(report[1]);
    for (int i = 0; i < CHILDREN && read(report[0], &told, 1) == 1; i++) {
        winners += told == 'w';
        refused += told == 'r';
    }
    close(end[1]);
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    close(go[0]);
    close(report[0]);
    close(end[0]);
    assert_int_equal(winners, 1);
    assert_int_equal(refused, CHILDREN - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_second_process_is_refused_with_host_and_pid,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(the_lock_ends_with_its_process, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_process_cannot_lock_twice, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(reading_the_owner_file_does_not_drop_the_lock,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_removed_lock_file_locks_nothing, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_missing_folder_is_named, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(only_one_of_many_concurrent_processes_gets_the_lock,
                                        scratch_set_up, scratch_tear_down),
    };
    return engines_run(tests);
}
