/*
 * slow_disk — tests arbitrarily slow writes while the arrays keep changing: no buffer is
 * overwritten by an update before it is written, staging stays within its budget, a save that comes
 * too early waits, and memory does not grow.
 */
#include "base/philox.h"
#include "ckpt/format/manifest.h"
#include "io/faults/io_fault.h"
#include "tests/ckpt/blocked_disk.h"
#include "tests/ckpt/steps.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { GROUPS = 5, STAGING_BYTES = 4 << 20 };

/* 12 MB; groups are adjacent in the file. */
static struct arrays make_groups(void)
{
    struct array_spec specs[2 * GROUPS];
    char names[2 * GROUPS][32];
    for (int i = 0; i < 2 * GROUPS; i++) {
        snprintf(names[i], sizeof names[i], "part%d.group%d", i / GROUPS, i % GROUPS);
        specs[i] = (struct array_spec){names[i], DTYPE_F32, i < GROUPS ? "99991x5" : "313x317",
                                       (uint32_t)(i % GROUPS)};
    }
    return arrays_make(specs, 2 * GROUPS);
}

/* Sets every word in the group to the version. */
static void update(struct arrays *trained_arrays, uint32_t group, uint32_t version)
{
    for (uint64_t i = 0; i < trained_arrays->count; i++) {
        const struct ckpt_tensor *tensor = &trained_arrays->tensors[i];
        uint32_t *words = tensor->data;
        for (uint64_t w = 0; tensor->group == group && w < array_bytes(tensor) / 4; w++)
            words[w] = version << 20 | (uint32_t)(w & 0xfffff);
    }
}

static void update_all(struct ckpt_saver *saver, struct arrays *trained_arrays, uint32_t version)
{
    for (uint32_t g = 0; g < GROUPS; g++) {
        if (saver)
            ckpt_saver_before_update(saver, g);
        update(trained_arrays, g, version);
    }
}

static struct ckpt_saver *open_saver(struct io *backend, const struct arrays *saved)
{
    struct ckpt_saver_options options = {.folder = folder,
                                         .io = backend,
                                         .groups_count = GROUPS,
                                         .staging_bytes = STAGING_BYTES,
                                         .run_id = "slow",
                                         .numerics_id = "any"};
    struct ckpt_saver *saver = NULL;
    struct err err = {0};
    assert_ok(ckpt_saver_open(&options, saved->tensors, saved->count, &saver, &err), &err);
    return saver;
}

static void staging_is_never_overwritten_before_it_is_written_to_disk(void **state)
{
    (void)state;
    enum { SAVES = 12 };
    uint32_t version = 1, saved[SAVES + 1], seed = (uint32_t)getpid();
    struct arrays trained_arrays = make_groups();
    struct io *slow = steps_open_faulty("seed=0");
    struct err err = {0};
    char path[FIXTURE_PATH_BYTES];
    print_message("seed %u\n", seed);
    steps_set_faults(slow, "write:delay=4ms%%40,write:delay=1ms%%70,seed=%u", seed);
    struct ckpt_saver *saver = open_saver(slow, &trained_arrays);
    update_all(NULL, &trained_arrays, version);
    for (uint32_t step = 1; step <= SAVES; step++) {
        assert_ok(ckpt_saver_save(saver, step, FIXTURE_STATE, &err), &err);
        saved[step] = version;
        /* a few updates, or updates until the save has ended; the next save is due either way */
        for (uint32_t more = philox(seed, step, 0).word[0] % 4; more > 0; more--)
            update_all(saver, &trained_arrays, ++version);
        while (step % 5 == 0 && ckpt_saver_is_busy(saver))
            update_all(saver, &trained_arrays, ++version);
    }
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    struct ckpt_saver_stats stats = ckpt_saver_stats(saver);
    assert_int_equal(stats.saves_count, SAVES);
    /* some updates had to copy blocks that were not written yet */
    assert_true(stats.copied_bytes > 0);
    assert_true(stats.blocked_ns > 0);
    ckpt_saver_close(saver);
    for (uint32_t step = 1; step <= SAVES; step++) {
        update_all(NULL, &trained_arrays, saved[step]);
        snprintf(path, sizeof path, "%s/step-%08u", folder, step);
        assert_true(fixture_step_equals(io, path, &trained_arrays));
    }
    io_close(slow);
    arrays_free(&trained_arrays);
}

/* A thread that continues to use the arrays, and so waits for the held disk. */
struct owner {
    struct ckpt_saver *saver;
    struct arrays *trained_arrays;
    bool saves; /* begins the next save without an update first */
    _Atomic pid_t thread;
};

static void *save_on_thread(void *context)
{
    struct owner *owner = context;
    struct err err = {0};
    owner->thread = gettid();
    if (owner->saves)
        assert_ok(ckpt_saver_save(owner->saver, 2, FIXTURE_STATE, &err), &err);
    else
        update_all(owner->saver, owner->trained_arrays, 2);
    return NULL;
}

static void wait_until_asleep(const struct owner *owner)
{
    while (owner->thread == 0 || !gate_is_asleep(owner->thread))
        gate_pause();
}

static void staging_stays_within_its_budget_while_writes_are_blocked(void **state)
{
    (void)state;
    struct arrays trained_arrays = make_groups();
    pthread_t thread;
    struct err err = {0};
    blocked_disk_install(io, 0);
    struct ckpt_saver *saver = open_saver(io, &trained_arrays);
    struct owner owner = {.saver = saver, .trained_arrays = &trained_arrays};
    update_all(NULL, &trained_arrays, 1);
    gate_shut(&disk);
    assert_ok(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), &err);
    gate_wait_for_threads(&disk, 1);
    assert_int_equal(pthread_create(&thread, NULL, save_on_thread, &owner), 0);
    /* the owner waits for space: more would not fit */
    while (ckpt_saver_stats(saver).buffer_waits_count == 0)
        gate_pause();
    assert_true(ckpt_saver_stats(saver).copied_bytes <= STAGING_BYTES);
    assert_true(ckpt_saver_is_busy(saver));
    gate_open(&disk);
    pthread_join(thread, NULL);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    assert_true(ckpt_saver_stats(saver).blocked_ns > 0); /* and the wait is reported */
    ckpt_saver_close(saver);
    arrays_free(&trained_arrays);
}

static void a_save_due_during_another_waits_and_happens_once(void **state)
{
    (void)state;
    struct arrays trained_arrays = make_groups();
    pthread_t thread;
    struct err err = {0};
    blocked_disk_install(io, 0);
    struct ckpt_saver *saver = open_saver(io, &trained_arrays);
    struct owner owner = {.saver = saver, .trained_arrays = &trained_arrays, .saves = true};
    update_all(NULL, &trained_arrays, 1);
    gate_shut(&disk);
    assert_ok(ckpt_saver_save(saver, 1, FIXTURE_STATE, &err), &err);
    gate_wait_for_threads(&disk, 1);
    assert_int_equal(pthread_create(&thread, NULL, save_on_thread, &owner), 0);
    wait_until_asleep(&owner);
    assert_int_equal(steps_temporaries_count(), 1);
    assert_int_equal(ckpt_saver_stats(saver).saves_count, 0);
    gate_open(&disk);
    pthread_join(thread, NULL);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    assert_int_equal(ckpt_saver_stats(saver).saves_count, 2);
    assert_int_equal(fixture_list(io, folder, NULL), 2);
    ckpt_saver_close(saver);
    arrays_free(&trained_arrays);
}

static uint64_t memory_in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void memory_does_not_grow_with_asynchronous_saves(void **state)
{
    (void)state;
    enum { SAVES = 40 };
    if (test_is_sanitized())
        test_skip("a sanitizer owns malloc");
    struct arrays trained_arrays = make_groups();
    struct err err = {0};
    uint64_t before = 0;
    struct ckpt_saver *saver = open_saver(io, &trained_arrays);
    for (uint32_t step = 1; step <= SAVES; step++) {
        assert_ok(ckpt_saver_save(saver, step % 3, FIXTURE_STATE, &err), &err);
        update_all(saver, &trained_arrays, step);
        if (step % 10 == 0)
            assert_ok(ckpt_saver_wait(saver, &err), &err);
        if (step == 10)
            before = memory_in_use();
    }
    uint64_t after = memory_in_use();
    print_message("%llu bytes in use after 10 saves, %llu after %d\n", (unsigned long long)before,
                  (unsigned long long)after, SAVES);
    assert_true(after <= before + (64 << 10));
    ckpt_saver_close(saver);
    arrays_free(&trained_arrays);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(staging_is_never_overwritten_before_it_is_written_to_disk),
        CASE(staging_stays_within_its_budget_while_writes_are_blocked),
        CASE(a_save_due_during_another_waits_and_happens_once),
        CASE(memory_does_not_grow_with_asynchronous_saves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
