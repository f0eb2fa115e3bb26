/*
 * copying — tests copying a step during concurrent reads and removals of steps.
 */
#include "io/faults/io_fault.h"
#include "io/file_util.h"
#include "tests/ckpt/steps.h"
#include "tests/support/gate.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>

struct copy_job {
    struct ckpt_copy_options options;
    struct ckpt_copy_result copied;
    struct err err;
    int status;
};

static void *copy(void *context)
{
    struct copy_job *copying = context;
    copying->status = ckpt_copy(&copying->options, &copying->copied, &copying->err);
    return NULL;
}

/* Saves steps 1 to `newest`. Step n has the contents that arrays_fill gives for n. */
static void make_steps(const char *place, uint64_t newest)
{
    char path[FIXTURE_PATH_BYTES];
    assert_int_equal(mkdir(place, 0777), 0);
    for (uint64_t step = 1; step <= newest; step++) {
        arrays_fill(&arrays, step);
        fixture_save_step(io, place, &arrays, step, path);
    }
}

static void a_step_locked_by_a_reader_during_removal_is_kept(void **state)
{
    (void)state;
    char path[FIXTURE_PATH_BYTES];
    struct io *faulty = steps_open_faulty("finalize:hold:manifest");
    struct copy_job copying = {.options = {.source_io = io, .target_io = faulty, .force = true}};
    struct ckpt_reader *reader = NULL;
    struct err err = {0};
    pthread_t thread;
    make_steps(in_folder("from"), 1);
    arrays_fill(&arrays, 2);
    assert_int_equal(mkdir(in_folder("to"), 0777), 0);
    fixture_save_step(io, in_folder("to"), &arrays, 1, path);
    copying.options.source_path = in_folder("from");
    copying.options.target_folder = in_folder("to");
    assert_int_equal(pthread_create(&thread, NULL, copy, &copying), 0);
    while (io_fault_counts(faulty).held_operations ==
           0) /* the copy has already checked for readers */
        gate_pause();
    assert_ok(ckpt_reader_open(io, path, &reader, &err), &err);
    io_fault_release(faulty);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(copying.status, -EBUSY);
    assert_true(fixture_step_equals(io, path, &arrays));
    assert_int_equal(test_run("test \"$(ls -A '%s/to' | grep -v owner)\" = step-00000001", folder),
                     0);
    ckpt_reader_close(reader);
    copy(&copying);
    assert_ok(copying.status, &copying.err);
    arrays_fill(&arrays, 1);
    assert_true(fixture_step_equals(io, path, &arrays));
    io_close(faulty);
}

static void a_step_removed_before_it_is_locked_is_not_the_newest(void **state)
{
    (void)state;
    struct io *faulty = steps_open_faulty("lock:hold:manifest");
    struct copy_job copying = {.options = {.source_io = faulty, .target_io = io}};
    pthread_t thread;
    make_steps(in_folder("from"), 2);
    copying.options.source_path = in_folder("from");
    copying.options.target_folder = in_folder("to");
    assert_int_equal(pthread_create(&thread, NULL, copy, &copying), 0);
    while (io_fault_counts(faulty).held_operations == 0) /* the copy has already found step 2 */
        gate_pause();
    assert_int_equal(test_run("rm -r '%s/from/step-00000002'", folder), 0);
    io_fault_release(faulty);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(copying.status, &copying.err);
    assert_int_equal(copying.copied.step, 1);
    arrays_fill(&arrays, 1);
    assert_true(fixture_step_equals(io, copying.copied.path, &arrays));
    io_close(faulty);
}

static void a_step_whose_removal_never_ends_is_not_read(void **state)
{
    (void)state;
    struct copy_job copying = {.options = {.source_io = io, .target_io = io}};
    struct io_shared_lock *hold;
    struct err err = {0};
    make_steps(in_folder("from"), 1);
    copying.options.source_path = in_folder("from");
    copying.options.target_folder = in_folder("to");
    assert_ok(io_lock_shared(io, in_folder("from/step-00000001/manifest.json"), true, &hold, &err),
              &err);
    copy(&copying);
    assert_int_equal(copying.status, -EAGAIN);
    io_unlock_shared(io, hold);
    copy(&copying);
    assert_ok(copying.status, &copying.err);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, steps_set_up, steps_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_step_locked_by_a_reader_during_removal_is_kept),
        CASE(a_step_removed_before_it_is_locked_is_not_the_newest),
        CASE(a_step_whose_removal_never_ends_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
