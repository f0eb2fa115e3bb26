/*
 * Tests copy before update: while arrays keep changing and the disk is stalled, every checkpoint
 * holds the arrays as they were at its save.
 */
#include "ckpt/format/manifest.h"
#include "tests/ckpt/blocked_disk.h"
#include "tests/ckpt/fixture.h"
#include "tests/support/scratch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GROUPS = 7, PARTS = 5, STEPS = 6 };

/* Arrays in all groups, adjacent in the file, with unaligned sizes: 20 MB. */
static struct arrays make_arrays(void)
{
    struct array_spec specs[GROUPS * PARTS];
    char names[GROUPS * PARTS][32];
    for (int i = 0; i < GROUPS * PARTS; i++) {
        static const char *const shapes[PARTS] = {"99991", "313x317", "1009", "77x1013x4", "3"};
        snprintf(names[i], sizeof names[i], "part%d.group%d", i / GROUPS, i % GROUPS);
        specs[i] =
            (struct array_spec){names[i], DTYPE_F32, shapes[i / GROUPS], (uint32_t)(i % GROUPS)};
    }
    return arrays_make(specs, GROUPS * PARTS);
}

/* Sets every word of the group to a value derived from the step. */
static void update(struct arrays *arrays, uint32_t group, uint64_t step)
{
    for (uint64_t i = 0; i < arrays->count; i++) {
        const struct ckpt_tensor *tensor = &arrays->tensors[i];
        if (tensor->group != group)
            continue;
        uint32_t *words = tensor->data;
        for (uint64_t w = 0; w < array_bytes(tensor) / 4; w++)
            words[w] = (uint32_t)(step << 24 | (w & 0xffffff));
    }
}

/* When the disk is released. It is blocked at the first write of every save. */
enum release {
    /* the caller, once all arrays hold the next step: what is not written yet must have been
     * copied */
    WHEN_UPDATED,
    WHEN_CALLER_WAITS, /* a helper that sees the caller sleep because staging is full */
};

struct caller {
    pid_t thread;
    atomic_bool is_updating;
};

static void *release_when_caller_waits(void *context)
{
    struct caller *caller = context;
    gate_wait_for_threads(&disk, 1);
    while (!caller->is_updating || !gate_is_asleep(caller->thread))
        gate_pause();
    gate_open(&disk);
    return NULL;
}

/* Updates the arrays to `step` while a save is in progress. */
static void update_during_save(struct ckpt_saver *saver, struct arrays *arrays, uint64_t step,
                               bool before_update)
{
    for (uint32_t g = 0; g < GROUPS; g++) {
        if (before_update)
            ckpt_saver_before_update(saver, g);
        update(arrays, g, step);
    }
}

/* Trains STEPS steps and saves each; returns how many checkpoints match the arrays at the time of
 * their save. */
static int train(struct ckpt_saver *saver, struct arrays *arrays, enum release release,
                 bool before_update)
{
    struct err err = {0};
    char path[FIXTURE_PATH_BYTES];
    int equal = 0;
    for (uint64_t step = 1; step <= STEPS; step++) {
        struct caller caller = {.thread = gettid()};
        pthread_t helper;
        if (step == 1)
            update_during_save(saver, arrays, 1, false); /* no save is in progress yet */
        gate_shut(&disk);
        assert_ok(ckpt_saver_save(saver, step, FIXTURE_STATE, &err), &err);
        gate_wait_for_threads(&disk, 1);
        if (release == WHEN_CALLER_WAITS)
            assert_int_equal(pthread_create(&helper, NULL, release_when_caller_waits, &caller), 0);
        caller.is_updating = true;
        update_during_save(saver, arrays, step + 1, before_update);
        if (release == WHEN_CALLER_WAITS)
            pthread_join(helper, NULL);
        gate_open(&disk);
        assert_ok(ckpt_saver_wait(saver, &err), &err);
    }
    for (uint64_t step = 1; step <= STEPS; step++) {
        update_during_save(saver, arrays, step, false);
        snprintf(path, sizeof path, "%s/step-%08llu", folder, (unsigned long long)step);
        equal += fixture_step_equals(io, path, arrays);
    }
    return equal;
}

static struct ckpt_saver *open_held(const struct arrays *arrays, uint64_t staging_bytes,
                                    struct device *device)
{
    blocked_disk_install(io, 500);
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = io,
                                         .device = device,
                                         .groups_count = GROUPS,
                                         .staging_bytes = staging_bytes,
                                         .run_id = "slow",
                                         .numerics_id = "any"};
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    assert_ok(ckpt_saver_open(&options, arrays->tensors, arrays->count, &saver, &err), &err);
    return saver;
}

static void with_tiny_staging_the_caller_waits_and_saves_are_consistent(void **state)
{
    (void)state;
    struct arrays arrays = make_arrays();
    struct ckpt_saver *saver = open_held(&arrays, 4 << 20, NULL);
    assert_int_equal(train(saver, &arrays, WHEN_CALLER_WAITS, true), STEPS);
    struct ckpt_saver_stats stats = ckpt_saver_stats(saver);
    assert_int_equal(stats.saves_count, STEPS);
    /* of the four buffers, one is being written and one is reserved for the writer: two were filled
     * before the wait */
    assert_true(stats.copied_bytes >= STEPS * 2 * CKPT_BLOCK_BYTES);
    assert_true(stats.buffer_waits_count >= STEPS);
    ckpt_saver_close(saver);
    arrays_free(&arrays);
}

static void with_ample_staging_each_save_is_consistent_while_writes_are_blocked(void **state)
{
    (void)state;
    struct arrays arrays = make_arrays();
    struct ckpt_saver *saver = open_held(&arrays, 64 << 20, NULL);
    assert_int_equal(train(saver, &arrays, WHEN_UPDATED, true), STEPS);
    struct ckpt_saver_stats stats = ckpt_saver_stats(saver);
    /* all but the block that the writer holds */
    assert_int_equal(stats.copied_bytes, stats.written_bytes - STEPS * CKPT_BLOCK_BYTES);
    ckpt_saver_close(saver);
    arrays_free(&arrays);
}

static void saves_of_device_arrays_are_consistent(void **state)
{
    (void)state;
    struct arrays arrays = make_arrays();
    struct device *device = NULL;
    struct err err = {0};
    assert_ok(device_open("cpu", &device, &err), &err);
    struct ckpt_saver *saver = open_held(&arrays, 8 << 20, device);
    assert_int_equal(train(saver, &arrays, WHEN_CALLER_WAITS, true), STEPS);
    ckpt_saver_close(saver);
    device_close(device);
    arrays_free(&arrays);
}

static void without_before_update_saves_are_inconsistent(void **state)
{
    (void)state;
    struct arrays arrays = make_arrays();
    struct ckpt_saver *saver = open_held(&arrays, 4 << 20, NULL);
    /* shows that the comparison can fail */
    assert_int_equal(train(saver, &arrays, WHEN_UPDATED, false), 0);
    ckpt_saver_close(saver);
    arrays_free(&arrays);
}

static void a_save_returns_while_its_first_write_is_held(void **state)
{
    (void)state;
    struct arrays arrays = make_arrays();
    struct ckpt_saver *saver = open_held(&arrays, 64 << 20, NULL);
    struct err err = {0};
    gate_shut(&disk);
    assert_ok(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), &err);
    gate_wait_for_threads(&disk, 1);
    assert_true(ckpt_saver_is_busy(saver));
    assert_int_equal(ckpt_saver_stats(saver).saves_count, 0);
    assert_int_equal(fixture_list(io, folder, NULL), 0);
    gate_open(&disk);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    assert_false(ckpt_saver_is_busy(saver));
    assert_int_equal(ckpt_saver_stats(saver).saves_count, 1);
    assert_int_equal(fixture_list(io, folder, NULL), 1);
    ckpt_saver_close(saver);
    arrays_free(&arrays);
}

static void unsaved_groups_are_not_copied(void **state)
{
    (void)state;
    static const struct array_spec spec = {"a", DTYPE_F32, "1000000", 2};
    struct arrays arrays = arrays_make(&spec, 1);
    struct ckpt_saver *saver = fixture_open(io, folder, &arrays);
    struct err err = {0};
    assert_ok(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), &err);
    ckpt_saver_before_update(saver, 0);
    ckpt_saver_before_update(saver, 1);
    assert_int_equal(ckpt_saver_stats(saver).copied_bytes, 0);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    ckpt_saver_before_update(saver, 2);
    assert_true(ckpt_saver_stats(saver).copied_bytes == 0);
    ckpt_saver_close(saver);
    arrays_free(&arrays);
}

static void staging_below_the_minimum_is_refused(void **state)
{
    (void)state;
    struct arrays arrays = make_arrays();
    struct ckpt_saver_options options = {
        .folder = folder, .io = io, .groups_count = GROUPS, .staging_bytes = 3 << 20};
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    assert_true(ckpt_saver_open(&options, arrays.tensors, arrays.count, &saver, &err) < 0);
    arrays_free(&arrays);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(with_tiny_staging_the_caller_waits_and_saves_are_consistent,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(
            with_ample_staging_each_save_is_consistent_while_writes_are_blocked, scratch_set_up,
            scratch_tear_down),
        cmocka_unit_test_setup_teardown(saves_of_device_arrays_are_consistent, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(without_before_update_saves_are_inconsistent,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_save_returns_while_its_first_write_is_held,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(unsaved_groups_are_not_copied, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(staging_below_the_minimum_is_refused, scratch_set_up,
                                        scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
