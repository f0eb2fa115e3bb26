/*
 * failures — tests disks that fail during a save: the save fails with an error, earlier steps
 * remain, and the next save succeeds.
 */
#include "io/faults/io_fault.h"
#include "tests/ckpt/steps.h"

#include <errno.h>
#include <string.h>

static void a_failure_of_any_operation_fails_only_the_save(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int code;
    } errors[] = {{"enospc", -ENOSPC}, {"eio", -EIO}, {"edquot", -EDQUOT}, {"erofs", -EROFS}};
    char path[FIXTURE_PATH_BYTES];
    int operation = 1;
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, path);
    for (;; operation++) {
        struct io *faulty = steps_open_faulty("seed=0");
        steps_set_faults(faulty, "durable:%s@%d", errors[operation % 4].name, operation);
        struct ckpt_saver *saver = steps_open(faulty, 0);
        struct err err = {0};
        arrays_fill(&arrays, 2);
        assert_ok(ckpt_saver_save(saver, 2, FIXTURE_STATE, &err), &err);
        for (uint32_t g = 0; g < arrays.groups_count; g++)
            ckpt_saver_before_update(saver, g); /* never hangs */
        int status = ckpt_saver_wait(saver, &err);
        struct ckpt_saver_stats stats = ckpt_saver_stats(saver);
        if (status == 0) { /* the fault was beyond the last operation */
            assert_int_equal(stats.saves_count, 1);
            assert_int_equal(stats.last_step, 2);
            ckpt_saver_close(saver);
            io_close(faulty);
            break;
        }
        assert_int_equal(status, errors[operation % 4].code);
        assert_int_equal(stats.failures_count, 1);
        assert_true(stats.last_step == UINT64_MAX);
        assert_int_equal(ckpt_saver_wait(saver, &err), 0); /* the error is reported only once */
        assert_int_equal(steps_temporaries_count(), 0);
        assert_int_equal(fixture_list(io, folder, NULL), 1);
        steps_set_faults(faulty, "%s", "");
        arrays_fill(&arrays, 3);
        /* the next save succeeds */
        assert_ok(ckpt_saver_save(saver, 3, FIXTURE_STATE, &err), &err);
        assert_ok(ckpt_saver_wait(saver, &err), &err);
        assert_int_equal(io_fault_counts(faulty).unsafe_aborts, 0);
        ckpt_saver_close(saver);
        io_close(faulty);
        assert_int_equal(fixture_list(io, folder, NULL), 2);
        steps_check_listed(2);
        assert_int_equal(test_run("rm -r '%s'/step-00000003", folder), 0);
    }
    assert_true(operation >=
                10); /* begin, create, 4 writes, finalize, create, write, finalize, commit */
    steps_check_listed(2);
}

static void a_write_that_fails_names_its_file(void **state)
{
    (void)state;
    static const char *const names[] = {"rank-00000.safetensors", "model.safetensors"};
    arrays_fill(&arrays, 1);
    for (int layout = CKPT_SHARDED; layout <= CKPT_CONSOLIDATED; layout++) {
        struct io *faulty = steps_open_faulty("seed=0");
        struct ckpt_saver_options options = {.folder = folder,
                                             .io = faulty,
                                             .layout = (enum ckpt_layout)layout,
                                             .groups_count = arrays.groups_count};
        struct ckpt_saver *saver = NULL;
        struct err err = {0};
        assert_ok(ckpt_saver_open(&options, arrays.tensors, arrays.count, &saver, &err), &err);
        steps_set_faults(faulty, "write:eio@1+:%s", names[layout]);
        assert_ok(ckpt_saver_save(saver, 2, FIXTURE_STATE, &err), &err);
        assert_int_equal(ckpt_saver_wait(saver, &err), -EIO);
        assert_non_null(strstr(err.path, "step-00000002/"));
        assert_string_equal(strrchr(err.path, '/') + 1, names[layout]);
        ckpt_saver_close(saver);
        io_close(faulty);
    }
}

static void a_queue_that_fails_to_wait_fails_only_its_save(void **state)
{
    (void)state;
    char path[FIXTURE_PATH_BYTES];
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, path);
    /* when the wait fails, all writes of the image are in progress */
    struct io *faulty = steps_open_faulty("wait:eio@1");
    struct ckpt_saver *saver = steps_open(faulty, 0);
    struct err err = {0};
    arrays_fill(&arrays, 2);
    assert_ok(ckpt_saver_save(saver, 2, FIXTURE_STATE, &err), &err);
    for (uint32_t g = 0; g < arrays.groups_count; g++)
        ckpt_saver_before_update(saver, g); /* never hangs */
    assert_int_equal(ckpt_saver_wait(saver, &err), -EIO);
    assert_non_null(strstr(err.path, "step-00000002"));
    assert_int_equal(io_fault_counts(faulty).unsafe_aborts, 0);
    assert_int_equal(io_fault_counts(faulty).in_flight_requests, 0);
    assert_int_equal(steps_temporaries_count(), 0);
    for (uint64_t step = 3; step <= 4; step++) {
        arrays_fill(&arrays, step);
        assert_ok(ckpt_saver_save(saver, step, FIXTURE_STATE, &err), &err);
        assert_ok(ckpt_saver_wait(saver, &err), &err);
    }
    ckpt_saver_close(saver);
    io_close(faulty);
    steps_check_listed(3);
}

static void the_next_save_reports_an_earlier_failure(void **state)
{
    (void)state;
    struct io *faulty = steps_open_faulty("durable:eio@4");
    struct ckpt_saver *saver = steps_open(faulty, 0);
    struct err err = {0};
    arrays_fill(&arrays, 1);
    assert_ok(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), &err);
    assert_int_equal(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), -EIO);
    assert_non_null(strstr(err.path, "step-00000001"));
    assert_ok(ckpt_saver_wait(saver, &err), &err); /* the new save began nevertheless */
    ckpt_saver_close(saver);
    io_close(faulty);
    steps_check_listed(1);
}

static void a_refused_save_keeps_an_earlier_failure_for_the_next_call(void **state)
{
    (void)state;
    struct io *faulty = steps_open_faulty("durable:eio@4");
    struct ckpt_saver *saver = steps_open(faulty, 0);
    struct err err = {0};
    arrays_fill(&arrays, 1);
    assert_ok(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), &err);
    assert_int_equal(ckpt_saver_save(saver, 2, "[]", &err), -EINVAL);
    assert_int_equal(ckpt_saver_wait(saver, &err), -EIO);
    assert_non_null(strstr(err.path, "step-00000001"));
    assert_ok(ckpt_saver_wait(saver, &err), &err); /* the error is reported only once */
    ckpt_saver_close(saver);
    io_close(faulty);
    steps_check_listed(0);
}

static void a_failed_save_removes_no_earlier_step(void **state)
{
    (void)state;
    /* the ninth operation is the last one before the step's name appears */
    for (int operation = 1; operation <= 9; operation++) {
        struct io *faulty = steps_open_faulty("seed=0");
        struct ckpt_saver *saver = steps_open(faulty, 1);
        uint64_t newest = 0;
        struct err err = {0};
        arrays_fill(&arrays, 1);
        fixture_save(saver, 1);
        steps_set_faults(faulty, "durable:eio@%d", operation);
        arrays_fill(&arrays, 2);
        assert_ok(ckpt_saver_save(saver, 2, FIXTURE_STATE, &err), &err);
        assert_int_equal(ckpt_saver_wait(saver, &err), -EIO);
        ckpt_saver_close(saver);
        io_close(faulty);
        assert_int_equal(fixture_list(io, folder, &newest), 1);
        assert_int_equal(newest, 1);
    }
    steps_check_listed(1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, steps_set_up, steps_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_failure_of_any_operation_fails_only_the_save),
        CASE(a_write_that_fails_names_its_file),
        CASE(a_queue_that_fails_to_wait_fails_only_its_save),
        CASE(the_next_save_reports_an_earlier_failure),
        CASE(a_refused_save_keeps_an_earlier_failure_for_the_next_call),
        CASE(a_failed_save_removes_no_earlier_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
