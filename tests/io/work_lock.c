/*
 * work_lock — one of many processes does the work while the others wait. Its death is detected, and
 * a missing lock is not an error.
 */
#include "io/local/work_lock.h"

#include "tests/support/child.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static int acquire_in_child(void *path)
{
    struct io_work_lock *turn;
    return io_work_lock_acquire(path, false, &turn);
}

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static void the_lock_is_held_until_released(void **state)
{
    (void)state;
    const char *path = in_folder("work.lock");
    struct io_work_lock *mine, *other;
    assert_int_equal(io_work_lock_acquire(path, false, &mine), 0);
    assert_non_null(mine);
    /* as another thread of this process would */
    assert_int_equal(io_work_lock_acquire(path, false, &other), -EBUSY);
    assert_int_equal(io_work_lock_acquire(path, true, &other), -EBUSY);
    io_work_lock_release(mine);
    assert_false(exists(path));
    /* the work is done */
    assert_int_equal(io_work_lock_acquire(path, true, &other), -ENOENT);
    assert_null(other);
    assert_int_equal(io_work_lock_acquire(path, false, &other), 0);
    io_work_lock_release(other);
    io_work_lock_release(NULL);
}

static void the_lock_of_a_dead_process_is_taken_over(void **state)
{
    (void)state;
    const char *path = in_folder("work.lock");
    struct io_work_lock *turn;
    for (int has_waited = 0; has_waited < 2; has_waited++) {
        pid_t child = child_start(acquire_in_child, (void *)(uintptr_t)path);
        assert_int_equal(io_work_lock_acquire(path, has_waited, &turn), -EBUSY);
        child_kill(child);
        assert_true(exists(path));
        assert_int_equal(io_work_lock_acquire(path, has_waited, &turn), 0);
        assert_non_null(turn);
        io_work_lock_release(turn);
        assert_false(exists(path));
    }
}

static void without_lock_support_all_proceed(void **state)
{
    (void)state;
    struct io_work_lock *turn;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(io_work_lock_acquire(in_folder("absent/work.lock"), false, &turn), 0);
        assert_null(turn);
        assert_int_equal(io_work_lock_acquire("/dev/null/work.lock", true, &turn), 0);
        assert_null(turn);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_lock_is_held_until_released, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(the_lock_of_a_dead_process_is_taken_over, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(without_lock_support_all_proceed, scratch_set_up,
                                        scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
