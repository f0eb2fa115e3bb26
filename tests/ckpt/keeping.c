/*
 * keeping — tests a folder of steps: its single owner, retention of the last N steps, and steps
 * that are saved again.
 */
#include "ckpt/format/manifest.h"
#include "io/faults/io_fault.h"
#include "tests/ckpt/steps.h"
#include "tests/ckpt/thread_comm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void a_second_owner_is_refused_naming_the_first(void **state)
{
    (void)state;
    struct ckpt_saver *first = steps_open(io, 0), *second = NULL;
    struct ckpt_saver_options options = {
        .folder = folder, .io = io, .groups_count = arrays.groups_count};
    struct err err = {0};
    char pid[32];
    assert_int_equal(ckpt_saver_open(&options, arrays.tensors, arrays.count, &second, &err),
                     -EBUSY);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    assert_non_null(strstr(err.found, pid));
    ckpt_saver_close(first);
    assert_ok(ckpt_saver_open(&options, arrays.tensors, arrays.count, &second, &err), &err);
    ckpt_saver_close(second);
}

static void the_last_n_steps_are_always_kept(void **state)
{
    (void)state;
    struct ckpt_saver *saver = steps_open(io, 2);
    uint64_t newest = 0;
    for (uint64_t step = 1; step <= 5; step++) {
        arrays_fill(&arrays, step);
        fixture_save(saver, step);
        assert_int_equal(fixture_list(io, folder, &newest), step < 2 ? 1 : 2);
        assert_int_equal(newest, step);
    }
    ckpt_saver_close(saver);
    steps_check_listed(2);
    assert_int_equal(steps_temporaries_count(), 0);
}

static void retention_never_removes_the_one_just_saved(void **state)
{
    (void)state;
    struct ckpt_saver *saver = steps_open(io, 1);
    char path[FIXTURE_PATH_BYTES];
    arrays_fill(&arrays, 9);
    fixture_save(saver, 9);
    arrays_fill(&arrays, 4);
    fixture_save(saver, 4); /* after training has returned to an earlier step */
    ckpt_saver_close(saver);
    snprintf(path, sizeof path, "%s/step-00000004", folder);
    assert_true(fixture_step_equals(io, path, &arrays));
}

static void damaged_steps_are_neither_counted_nor_removed(void **state)
{
    (void)state;
    struct ckpt_saver *saver = steps_open(io, 2);
    uint64_t newest;
    arrays_fill(&arrays, 1);
    fixture_save(saver, 1);
    assert_int_equal(
        test_run(
            "mkdir '%s'/step-00000007 '%s'/step-8 && echo '{' >'%s'/step-00000007/manifest.json",
            folder, folder, folder),
        0);
    arrays_fill(&arrays, 8);
    fixture_save(saver, 8);
    ckpt_saver_close(saver);
    assert_int_equal(fixture_list(io, folder, &newest), 2);
    assert_int_equal(newest, 8);
    assert_int_equal(test_run("test -d '%s'/step-00000007", folder), 0);
}

static void saving_the_same_step_again_keeps_or_replaces_it(void **state)
{
    (void)state;
    char path[FIXTURE_PATH_BYTES], before[64], after[64];
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, path);
    assert_int_equal(test_run_output(before, sizeof before, "stat -c %%i '%s'", path), 0);
    /* with the same content, the old step remains */
    fixture_save_step(io, folder, &arrays, 1, path);
    assert_int_equal(test_run_output(after, sizeof after, "stat -c %%i '%s'", path), 0);
    assert_string_equal(before, after);
    arrays_fill(&arrays, 2);
    fixture_save_step(io, folder, &arrays, 1, path);
    assert_true(fixture_step_equals(io, path, &arrays));
    assert_int_equal(test_run_output(after, sizeof after, "stat -c %%i '%s'", path), 0);
    assert_string_not_equal(before, after);
    assert_int_equal(test_run("echo >'%s'/manifest.json", path), 0);
    fixture_save_step(io, folder, &arrays, 1, path); /* a broken step is replaced */
    assert_true(fixture_step_equals(io, path, &arrays));
    assert_int_equal(steps_temporaries_count(), 0);
    assert_int_equal(fixture_list(io, folder, NULL), 1);
}

/* Saves the arrays as step 1; returns the inode of the step's folder. */
static void save_first_step(const struct arrays *saved, const char *numerics_id,
                            const char *state_json, char inode[64])
{
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = io,
                                         .groups_count = saved->groups_count,
                                         .run_id = "test-run",
                                         .numerics_id = numerics_id};
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    assert_ok(ckpt_saver_open(&options, saved->tensors, saved->count, &saver, &err), &err);
    assert_ok(ckpt_saver_save(saver, 1, state_json, &err), &err);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    ckpt_saver_close(saver);
    assert_int_equal(test_run_output(inode, 64, "stat -c %%i '%s/step-00000001'", folder), 0);
}

static void equal_bytes_with_a_different_manifest_replace_the_step(void **state)
{
    (void)state;
    static const struct array_spec transposed_spec = {"a.weight", DTYPE_F32, "1000x300", 0};
    struct arrays one = arrays_make(steps_specs, 1), turned = arrays_make(&transposed_spec, 1);
    char first[64], again[64], other[64];
    save_first_step(&one, "here", "{\"position\":7}", first);
    save_first_step(&one, "here", "{ \"position\": 7 }", again);
    assert_string_equal(first, again); /* the content is the same */
    save_first_step(&one, "here", "{\"position\":8}", other);
    assert_string_not_equal(again, other);
    save_first_step(&one, "there", "{\"position\":8}", again);
    assert_string_not_equal(again, other);
    save_first_step(&turned, "there", "{\"position\":8}", other);
    assert_string_not_equal(again, other);
    arrays_free(&one);
    arrays_free(&turned);
}

static void a_damaged_step_is_replaced_by_the_same_save(void **state)
{
    (void)state;
    char path[FIXTURE_PATH_BYTES], file[2 * FIXTURE_PATH_BYTES];
    size_t bytes;
    struct err err = {0};
    arrays_fill(&arrays, 1);
    fixture_save_step(io, folder, &arrays, 1, path);
    snprintf(file, sizeof file, "%s/rank-00000.safetensors", path);
    unsigned char *data = test_read_file(file, &bytes);
    data[bytes / 2] ^= 1; /* the manifest is unchanged */
    test_write_file(file, data, bytes);
    free(data);
    assert_true(ckpt_verify(io, path, NULL, NULL, NULL, &err) > 0);
    fixture_save_step(io, folder, &arrays, 1, path);
    assert_int_equal(ckpt_verify(io, path, NULL, NULL, NULL, &err), 0);
    assert_true(fixture_step_equals(io, path, &arrays));
    assert_int_equal(steps_temporaries_count(), 0);
}

enum { SHARING_RANKS = 2, LARGE_BLOCKS = 23 };

struct shared_save {
    /* Each rank stores half of the array: 12 blocks, in two runs of adjacent blocks. */
    struct arrays large;
    uint64_t read_bytes[SHARING_RANKS];
};

static void save_on_two_ranks(void *context, struct comm *comm)
{
    struct shared_save *sharing = context;
    struct io *counting = steps_open_faulty("seed=0");
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = counting,
                                         .comm = comm,
                                         .groups_count = 1,
                                         .run_id = "test-run",
                                         .numerics_id = "any"};
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    assert_ok(ckpt_saver_open(&options, sharing->large.tensors, 1, &saver, &err), &err);
    assert_ok(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), &err);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    ckpt_saver_close(saver);
    sharing->read_bytes[comm->rank] = io_fault_counts(counting).read_bytes;
    io_close(counting);
}

/* If a single rank read all of a large step, the others would time out. */
static void ranks_share_the_verification_of_an_existing_step(void **state)
{
    (void)state;
    static const struct array_spec spec = {"large", DTYPE_U8, "23x1048576", 0};
    static const uint64_t damaged[] = {0, 7, 8, 11};
    struct shared_save sharing = {.large = arrays_make(&spec, 1)};
    char step[FIXTURE_PATH_BYTES], file[2 * FIXTURE_PATH_BYTES], before[64], after[64];
    struct err err = {0};
    arrays_fill(&sharing.large, 1);
    thread_comm_run(SHARING_RANKS, save_on_two_ranks, &sharing);
    snprintf(step, sizeof step, "%s/step-00000001", folder);
    assert_int_equal(test_run_output(before, sizeof before, "stat -c %%i '%s'", step), 0);
    thread_comm_run(SHARING_RANKS, save_on_two_ranks, &sharing);
    assert_int_equal(test_run_output(after, sizeof after, "stat -c %%i '%s'", step), 0);
    assert_string_equal(before, after);
    for (int r = 0; r < SHARING_RANKS; r++)
        assert_in_range(sharing.read_bytes[r], LARGE_BLOCKS * CKPT_BLOCK_BYTES / 4,
                        LARGE_BLOCKS * CKPT_BLOCK_BYTES * 3 / 4);
    for (int i = 0; i < 8; i++) { /* whichever rank reads the damaged block detects it */
        snprintf(file, sizeof file, "%s/rank-%05d.safetensors", step, i / 4);
        FILE *out = fopen(file, "r+b");
        fseek(out, (long)(damaged[i % 4] * CKPT_BLOCK_BYTES), SEEK_SET);
        int byte = fgetc(out);
        fseek(out, -1, SEEK_CUR);
        fputc(byte ^ 1, out);
        fclose(out);
        assert_int_equal(ckpt_verify(io, step, NULL, NULL, NULL, &err),
                         damaged[i % 4] == 0 ? 2 : 1);
        thread_comm_run(SHARING_RANKS, save_on_two_ranks, &sharing);
        assert_int_equal(ckpt_verify(io, step, NULL, NULL, NULL, &err), 0);
    }
    arrays_free(&sharing.large);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, steps_set_up, steps_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_second_owner_is_refused_naming_the_first),
        CASE(the_last_n_steps_are_always_kept),
        CASE(retention_never_removes_the_one_just_saved),
        CASE(damaged_steps_are_neither_counted_nor_removed),
        CASE(saving_the_same_step_again_keeps_or_replaces_it),
        CASE(equal_bytes_with_a_different_manifest_replace_the_step),
        CASE(a_damaged_step_is_replaced_by_the_same_save),
        CASE(ranks_share_the_verification_of_an_existing_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
