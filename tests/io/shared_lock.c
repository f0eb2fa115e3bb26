/*
 * shared_lock — readers and removers of a file, tested with real processes.
 */
#include "io/file_util.h"
#include "io/io.h"
#include "tests/support/child.h"
#include "tests/support/scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct lock_request {
    const char *path;
    bool is_exclusive;
};

static int acquire_lock(void *context)
{
    const struct lock_request *lock_request = context;
    struct io_shared_lock *hold;
    return io_lock_shared(io, lock_request->path, lock_request->is_exclusive, &hold, NULL);
}

/* A process that holds the file until it is killed. */
static pid_t start_holder(const char *path, bool is_exclusive)
{
    return child_start(acquire_lock, &(struct lock_request){path, is_exclusive});
}

static const char *make_file(void)
{
    const char *path = in_folder("manifest");
    test_write_file(path, "text", 4);
    return path;
}

static void readers_share_a_lock_that_excludes_removers(void **state)
{
    (void)state;
    const char *path = make_file();
    struct err err = {0};
    struct io_shared_lock *mine = NULL, *other = NULL;
    pid_t first = start_holder(path, false), second = start_holder(path, false);
    assert_ok(io_lock_shared(io, path, false, &mine, &err), &err);
    assert_non_null(mine);
    assert_int_equal(io_lock_shared(io, path, true, &other, &err), -EBUSY);
    assert_string_equal(err.path, path);
    io_unlock_shared(io, mine);
    child_kill(first);
    assert_int_equal(io_lock_shared(io, path, true, &other, &err), -EBUSY);
    child_kill(second); /* the kernel releases locks of dead processes */
    assert_ok(io_lock_shared(io, path, true, &other, &err), &err);
    io_unlock_shared(io, other);
    io_unlock_shared(io, NULL);
}

static void a_remover_excludes_readers_and_other_removers(void **state)
{
    (void)state;
    const char *path = make_file();
    struct err err = {0};
    struct io_shared_lock *hold = NULL;
    pid_t remover = start_holder(path, true);
    assert_int_equal(io_lock_shared(io, path, false, &hold, &err), -EBUSY);
    assert_int_equal(io_lock_shared(io, path, true, &hold, &err), -EBUSY);
    child_kill(remover);
    assert_ok(io_lock_shared(io, path, false, &hold, &err), &err);
    io_unlock_shared(io, hold);
}

static void locks_conflict_within_one_process(void **state)
{
    (void)state;
    const char *path = make_file();
    struct err err = {0};
    struct io_shared_lock *reads = NULL, *removes = NULL;
    assert_ok(io_lock_shared(io, path, false, &reads, &err), &err);
    assert_int_equal(io_lock_shared(io, path, true, &removes, &err), -EBUSY);
    io_unlock_shared(io, reads);
    assert_ok(io_lock_shared(io, path, true, &removes, &err), &err);
    io_unlock_shared(io, removes);
    size_t bytes;
    unsigned char *text = test_read_file(path, &bytes); /* unchanged */
    assert_int_equal(bytes, 4);
    assert_memory_equal(text, "text", 4);
    free(text);
}

static void a_missing_file_cannot_be_locked(void **state)
{
    (void)state;
    struct err err = {0};
    struct io_shared_lock *hold = NULL;
    assert_int_equal(io_lock_shared(io, in_folder("absent"), false, &hold, &err), -ENOENT);
    assert_int_equal(io_lock_shared(io, in_folder("absent"), true, &hold, &err), -ENOENT);
    assert_null(hold);
}

static void readers_need_no_write_permission(void **state)
{
    (void)state;
    if (geteuid() == 0)
        test_skip("root may write everything");
    const char *path = make_file();
    struct err err = {0};
    struct io_shared_lock *hold = NULL;
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(io_lock_shared(io, path, true, &hold, &err), -EACCES);
    assert_ok(io_lock_shared(io, path, false, &hold, &err), &err);
    io_unlock_shared(io, hold);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(readers_share_a_lock_that_excludes_removers),
        CASE(a_remover_excludes_readers_and_other_removers),
        CASE(locks_conflict_within_one_process),
        CASE(a_missing_file_cannot_be_locked),
        CASE(readers_need_no_write_permission),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
